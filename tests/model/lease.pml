/* The lease, claim and append protocol of the job log: one job, its log, its mutable lease row.
 *
 * Check      ./check.sh        (this model, every mutant and variant; README.md has the table)
 * By hand    spin -a lease.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 *            the trace of a failed run, with the same -D: spin -t -p -g lease.pml
 * Sizes      -DW= workers  -DU= units (<= 3)  -DT= grants  -DK= operator commands
 *            -DC= connections for appends (<= 3)
 * Mutants    -DNAME; MUTANT stands at each place where one takes a defence away
 * Variants   -DNAME; VARIANT stands where one changes the protocol or the world
 *
 * The store's transactions are atomic; everything else is at its worst. A lease expires at ANY
 * moment. An append stays on one of the connections as long as it likes, outlives its sender,
 * is overtaken, is sent again on another connection while the first copy is under way, or is
 * lost; so may its answer be. kill -9 strikes between any two steps and takes all local state.
 * A renewal sent for any grant there ever was may arrive at any time.
 *
 * Left out, because something here covers it: a claim whose answer was lost is read back (a claim
 * answered late) or forgotten (a claim, then a crash); a takeover by proof of death is one whose
 * lease expired at once; an append of several events is one version here, as it is one commit;
 * a unit commit that renews is a commit followed by a renewal.
 * An inline marked "transition" is named like its command in the code (transitions.txt).
 */
#ifndef W
#define W 2
#endif
#ifndef U
#define U 2
#endif
#ifndef T
#define T 3
#endif
#ifndef K
#define K 2
#endif
#ifndef C
#define C 2
#endif

/* An assertion tells its name: pan prints "assertion violated (S6||...)". */
hidden byte S1, S2, S5, S6, S7, S8, S9, S10, S12, WISH, L7;
#define MUST(name, e) assert(name || (e))

#ifdef MARKS                     /* situations a run must have met: each is printed once       */
#define MARK(x) c_code { static char s; if (!s) { s = 1; puts("mark " #x); } }
#else
#define MARK(x) skip
#endif

/* status */
#define QUEUED    0
#define RUNNING   1
#define PAUSED    2
#define COMPLETED 3
#define CANCELLED 4
#define TERMINAL  (status >= COMPLETED)
/* an operator's command, and the wish it leaves while a worker holds the job */
#define NONE   0
#define PAUSE  1
#define CANCEL 2
#define RESUME 3
/* what a worker appends */
#define ATTEMPT 1                /* unit-attempted                                             */
#define UNIT    2                /* unit-completed, checkpoint-advanced                        */
#define RELEASE 3                /* lease-released, and paused or cancelled if there is a wish */
#define DONE    4                /* lease-released, completed                                  */
#define STALE   5                /* one of these, the version it expects being passed          */

/* Once the version it expects is passed, an append is recognised or refused whatever it carries:
 * forget that, and what else was decided at a passed version. The mutants in which it would still
 * matter keep it, as does -DKEEP (many more states). */
#if defined(NOVERSION) || defined(NOVERSION_MAX) || defined(BLINDCKPT) || defined(FENCE_FIRST)
#define KEEP
#endif

/* ---- the log, as its fold ------------------------------------------------------------------ */
byte status;
byte wish;
byte toktop;                     /* newest token granted                                       */
byte ckpt;                       /* every unit below it is completed                           */
byte units;                      /* bit u: a result is stored under the key of unit u          */
bool crashed;                    /* lease-expired since the last unit-completed                */

/* ---- the lease row: mutable, no event ------------------------------------------------------ */
bool row, live;                  /* it exists; lease_until > clock                             */
byte rowtok;

/* ---- ghosts: known to the judge only ------------------------------------------------------- */
byte grant;                      /* grants so far; unlike a token never reused                 */
byte rowg;                       /* the grant in the row                                       */
bool told;                       /* its holder was told for good that the lease is lost        */
byte effect;                     /* bit u: the side effect of unit u happened                  */
byte asked;                      /* a wish is in the log, not honoured: 1, and the holder      */
                                 /* completed a unit since: 2, and that holder is gone: 3      */

/* ---- a worker: its grant, what it has folded, the one append it is about ------------------- */
typedef Worker {
  byte g;                        /* its grant                                                  */
  bool cur;                      /* the version it has folded up to is still the newest        */
  byte seen, wish;               /* units and wish as of then                                  */
  bool crashed;
  byte kind, u;                  /* the append; (kind, u, grant) are its event ids             */
  byte landed;                   /* ghost: they are in the log, 1 = nothing came after them    */
  bool lost                      /* the store's answer: fenced off                             */
};
Worker me[W];

typedef Message {
  byte kind, g;
  byte who;                      /* the worker that waits for the answer, + 1; 0 = none does   */
  bool cur;                      /* the version it expects is the newest                       */
  byte seen, wish, u;
  byte dup                       /* ghost: its ids are in the log, 2 = where it expects them   */
};
Message net[C];

bool takercur, opcur;            /* the same of takeover and operator, and what they saw then  */
byte takerwish;
bool held;

#define BIT(u)    (1 << (u))
#define HAS(s, u) (((s) >> (u)) & 1)
#define ALL       (BIT(U) - 1)
#define PREFIX(s) (HAS(s, 0) -> (HAS(s, 1) -> (HAS(s, 2) -> 3 : 2) : 1) : 0)

#if C == 1
#define EACH_MESSAGE(f, a) f(0, a)
#elif C == 2
#define EACH_MESSAGE(f, a) f(0, a); f(1, a)
#else
#define EACH_MESSAGE(f, a) f(0, a); f(1, a); f(2, a)
#endif
#if W == 1
#define EACH_WORKER(f) f(0)
#elif W == 2
#define EACH_WORKER(f) f(0); f(1)
#else
#define EACH_WORKER(f) f(0); f(1); f(2)
#endif

#ifdef TOKREUSE                  /* MUTANT: the token is counted in the row, which is deleted  */
#define TOKEN(g) 1
#else
#define TOKEN(g) (g)
#endif

#if defined(NOVERSION) || defined(NOVERSION_MAX)   /* MUTANTS: no compare-and-set             */
#define NEXT(cur) true
#else
#define NEXT(cur) (cur)
#endif

#ifdef NO_READBACK               /* MUTANT: unknown = refused, built anew with new event ids   */
#define READBACK false
#else
#define READBACK true
#endif

#if defined(NODEDUP) || defined(NOLOOKUP)          /* MUTANT, VARIANT: results not looked up   */
#define RESULTS (BIT(ckpt) - 1)
#else
#define RESULTS units
#endif

#if defined(NODEDUP) || defined(NOUNIQUE)          /* MUTANT, VARIANT: the key is not unique   */
#define KEYFREE(kind, u) true
#else
#define KEYFREE(kind, u) ((kind) != UNIT || !HAS(units, u))
#endif

#ifdef EXPIRY_NOT_FENCED         /* VARIANT: expiry only lets others take over                 */
#define VALID true
#else
#define VALID live
#endif

#ifdef NOFENCE                   /* MUTANT                                                     */
#define FENCE(i) true
#elif defined(RELEASE_IGNORES_TOKEN)               /* MUTANT: DELETE ... WHERE job_id          */
#define FENCE(i) (net[i].kind == RELEASE || row && rowtok == TOKEN(net[i].g) && VALID)
#else
#define FENCE(i) (row && rowtok == TOKEN(net[i].g) && VALID)
#endif

#ifdef RENEW_IGNORES_TOKEN       /* MUTANT                                                     */
#define RENEWABLE(tok) (row && live)
#elif defined(RENEW_IGNORES_EXPIRY)                /* MUTANT                                   */
#define RENEWABLE(tok) (row && rowtok == (tok))
#else
#define RENEWABLE(tok) (row && rowtok == (tok) && live)
#endif

#ifdef TRUST_STORE               /* VARIANT: a reload does not compare tokens                  */
#define NEWER(tok) false
#else
#define NEWER(tok) (toktop != (tok))
#endif

/* ---- the log ------------------------------------------------------------------------------- */

inline older(i, x) {
#ifdef KEEP
  net[i].cur = false
#else
  if :: net[i].kind -> stale(i) :: else fi
#endif
}

inline stale(i) {
  net[i].kind = STALE; net[i].g = 0; net[i].who = 0; net[i].cur = false;
  net[i].seen = 0; net[i].wish = 0; net[i].u = 0; net[i].dup = (net[i].dup == 2 -> 2 : 0)
}

inline behind(i) { me[i].cur = false; if :: me[i].landed -> me[i].landed = 2 :: else fi }

inline insert(current) {         /* any event: UNIQUE(stream, version)                         */
#ifndef NOVERSION_MAX            /* MUTANT: the store numbers the event itself                 */
  MUST(S5, current);                               /* version = the last one + 1               */
#endif
  MUST(S12, !TERMINAL);
  takercur = false; opcur = false;                 /* whatever others know is now older        */
#ifndef KEEP
  takerwish = NONE; held = false;
#endif
  EACH_WORKER(behind);
  EACH_MESSAGE(older, 0)
}

inline drop_row() {
  row = false; live = false; rowtok = 0; rowg = 0; told = false;
  if :: asked -> asked = 3 :: else fi
}

inline honour(asks) {            /* paused or cancelled, in the commit that frees the job      */
  if
  :: asks == PAUSE -> status = PAUSED; MARK(pause_honoured)
  :: asks == CANCEL -> status = CANCELLED; MARK(cancel_honoured)
  :: else -> status = QUEUED
  fi;
#ifdef WISH_LATER                /* VARIANT: left to the next holder's first boundary          */
  if :: asks != NONE -> wish = NONE :: else fi;
#else
  wish = NONE;
#endif
  if :: asks != NONE -> asked = 0 :: else fi
}

/* ---- appends of the holder: the store's one transaction ------------------------------------ */

#define SAME(i, j) (net[i].who == net[j].who && net[i].g == net[j].g && \
  net[i].kind == net[j].kind && net[i].u == net[j].u && net[i].wish == net[j].wish)
#define MINE(i, p) (net[i].kind == me[p].kind && net[i].u == me[p].u && \
  (net[i].kind != RELEASE || net[i].wish == me[p].wish))

inline mark_copy(j, i) {
  if :: i != j && SAME(i, j) -> net[j].dup = (net[j].cur -> 2 : 1) :: else fi
}

inline land(i) {
  MUST(S2, !net[i].dup && !told);                  /* no id twice, none after a refusal        */
  MUST(S6, row && rowg == net[i].g);               /* only the grant that holds the job        */
  EACH_MESSAGE(mark_copy, i);
  insert(net[i].cur);
  if
  :: net[i].who && MINE(i, net[i].who - 1) -> me[net[i].who - 1].landed = 1
  :: else -> MARK(landed_unasked)
  fi;
  if
  :: net[i].kind == ATTEMPT -> MARK(unit_attempted)
  :: net[i].kind == UNIT ->
     MUST(S8, !HAS(units, net[i].u));
     MUST(S9, HAS(effect, net[i].u));
     MUST(S10, PREFIX(net[i].seen | BIT(net[i].u)) >= ckpt);
     MUST(WISH, asked <= 1);
     if :: asked -> asked = 2; MARK(unit_recorded_after_the_wish) :: else fi;
     units = units | BIT(net[i].u);
     ckpt = PREFIX(net[i].seen | BIT(net[i].u));
     crashed = false;
     if :: ckpt <= net[i].u -> MARK(out_of_order) :: else fi
  :: net[i].kind == RELEASE -> drop_row(); honour(net[i].wish)
  :: net[i].kind == DONE ->
     MUST(S10, ckpt == U);
     MUST(WISH, !asked);
     drop_row(); status = COMPLETED; MARK(completed)
  fi
}

inline fenced(i) {               /* a definite answer, to the sender if it still asks          */
  if
  :: net[i].who && me[net[i].who - 1].cur && MINE(i, net[i].who - 1) ->
     me[net[i].who - 1].lost = true; MARK(fenced_off)
  :: else -> MARK(fenced_off_unheard)
  fi
}

inline append(i) {               /* transition; this order of checks matters                   */
  if
#ifdef FENCE_FIRST               /* MUTANT: an answer "lost" for what is in the log            */
  :: !FENCE(i) -> fenced(i)
#endif
  :: net[i].dup == 2 && READBACK ->                /* 1 read back: its ids, at its version     */
     MARK(recognised);
#ifdef BLINDCKPT                 /* MUTANT: answered by setting the checkpoint again           */
     if
     :: net[i].kind == UNIT ->
        MUST(S10, PREFIX(net[i].seen | BIT(net[i].u)) >= ckpt);
        ckpt = PREFIX(net[i].seen | BIT(net[i].u))
     :: else
     fi
#endif
  :: else ->
     if
     :: !NEXT(net[i].cur) -> MARK(version_refused) /* 2 compare-and-set                        */
     :: NEXT(net[i].cur) && !FENCE(i) -> fenced(i) /* 3 fence on the lease row                 */
     :: NEXT(net[i].cur) && FENCE(i) && KEYFREE(net[i].kind, net[i].u) -> land(i)
     :: NEXT(net[i].cur) && FENCE(i) && !KEYFREE(net[i].kind, net[i].u) -> MARK(key_refused)       /* 4 unit key   */
     fi
  fi;
  clear(i)
}

inline clear(i) {
  net[i].kind = 0; net[i].g = 0; net[i].who = 0; net[i].cur = false;
  net[i].seen = 0; net[i].wish = 0; net[i].u = 0; net[i].dup = 0
}

inline post(i) {
  net[i].kind = me[p].kind; net[i].g = me[p].g; net[i].who = p + 1; net[i].cur = me[p].cur;
  net[i].u = me[p].u;
  net[i].seen = (me[p].kind == UNIT -> me[p].seen : 0);
  net[i].wish = (me[p].kind == RELEASE -> me[p].wish : 0);
  net[i].dup = (me[p].landed -> 2 : 0);
#ifndef KEEP
  if :: !net[i].cur -> stale(i) :: else fi
#endif
}

/* ---- the lease row ------------------------------------------------------------------------- */

inline renew(g) {                /* transition: one statement for all jobs of a process        */
  if
  :: RENEWABLE(TOKEN(g)) -> MUST(S6, rowg == g); live = true; MARK(renewed)
  :: else -> MARK(renewal_refused)
  fi
}

inline expire() {                /* transition: takeover, decided under the row lock           */
  if
#ifdef EXPIRE_UNLOCKED           /* VARIANT: decided by an earlier look at the row             */
  :: row && rowtok == t && NEXT(takercur) ->
#else
  :: row && !live && NEXT(takercur) ->
#endif
     MUST(S7, !live);
     w = takerwish;
     insert(takercur); crashed = true; drop_row();
#if defined(WISH_LOST) || defined(WISH_LATER)      /* MUTANT, VARIANT                          */
     honour(NONE)
#else
     if :: w != NONE -> MARK(wish_of_a_dead_holder) :: else fi;
     honour(w)
#endif
  :: else -> MARK(takeover_refused)
  fi
}

/* ---- the worker ---------------------------------------------------------------------------- */

inline fold() {                  /* it loads the stream, and the unit results                  */
  me[p].cur = true; me[p].seen = RESULTS; me[p].wish = wish; me[p].crashed = crashed
}

inline orphan(i, p) { if :: net[i].who == p + 1 -> net[i].who = 0 :: else fi }

inline forget() {                /* lost, handed back, or kill -9                              */
  me[p].g = 0; me[p].cur = false; me[p].seen = 0; me[p].wish = 0; me[p].crashed = 0;
  me[p].kind = 0; me[p].u = 0; me[p].landed = 0; me[p].lost = 0;
  EACH_MESSAGE(orphan, p)
}

inline lose() {                  /* it has been told for good: this grant appends no more      */
  if :: rowg == me[p].g -> told = row; MARK(told_before_the_takeover) :: else fi;
  forget()
}

inline claim() {                 /* transition                                                 */
  if
  :: NEXT(me[p].cur) && !row ->                    /* the row's key is the job                 */
     insert(me[p].cur);
     grant++;
#ifndef TOKREUSE_DEEPER          /* MUTANT: let the consequence show                           */
     MUST(S7, TOKEN(grant) > toktop);
#endif
     toktop = TOKEN(grant); status = RUNNING;
     row = true; live = true; rowtok = toktop; rowg = grant;
     me[p].g = grant; fold();
     if :: grant == T -> MARK(all_grants_used) :: else fi
  :: else -> me[p].cur = false; MARK(claim_refused)
  fi
}

inline next_unit() {             /* any order: units of one job may finish out of order        */
  if
  :: !HAS(me[p].seen, 0) -> me[p].u = 0
#if U > 1
  :: !HAS(me[p].seen, 1) -> me[p].u = 1
#endif
#if U > 2
  :: !HAS(me[p].seen, 2) -> me[p].u = 2
#endif
  fi
}

inline attempt_unit() { me[p].kind = ATTEMPT }     /* transition: unit 0 (a gate), any after a crash */
inline complete_unit() { me[p].kind = UNIT }       /* transition                               */
inline release() { me[p].kind = RELEASE }          /* transition: with its wish, if any        */
inline complete() { me[p].kind = DONE }            /* transition                               */

active [W] proctype worker() {   /* first, so that _pid is 0 .. W-1                            */
  byte p = _pid;

end_idle:
  atomic { status == QUEUED && grant < T -> me[p].cur = true };   /* from the index: maybe stale */
  atomic { claim(); if :: me[p].g == 0 -> goto end_idle :: else fi };

boundary:
  if
#ifdef WISH_IGNORED              /* MUTANT: the worker goes on                                 */
  :: atomic { me[p].seen != ALL ->
#else
  :: atomic { me[p].wish == NONE && me[p].seen != ALL ->
#endif
       next_unit();
       if
       :: me[p].crashed || me[p].u == 0 -> attempt_unit(); goto send
       :: else -> goto body
       fi }
  :: atomic { me[p].wish == NONE && me[p].seen == ALL -> complete(); goto send }
  :: atomic { me[p].wish != NONE -> release(); goto send }        /* honoured at the boundary  */
  :: atomic { me[p].wish == NONE -> release(); goto send }        /* yield, shutdown           */
  :: atomic { !RENEWABLE(TOKEN(me[p].g)) -> lose(); goto end_idle }    /* renewal: no row           */
  :: atomic { forget(); MARK(kill_at_boundary); goto end_idle }
  fi;

body:
#ifdef EFFECT_LATE               /* MUTANT: reported before it is done                         */
  atomic { complete_unit(); goto send };
#endif
  if
  :: atomic { effect = effect | BIT(me[p].u); complete_unit(); goto send }
  :: atomic { !RENEWABLE(TOKEN(me[p].g)) -> lose(); goto end_idle }
  :: atomic { forget(); MARK(kill_in_body); goto end_idle }
  fi;

send:
  if
  :: atomic { net[0].kind == 0 -> post(0) }
#if C > 1
  :: atomic { net[0].kind && net[1].kind == 0 -> post(1) }
#endif
#if C > 2
  :: atomic { net[0].kind && net[1].kind && net[2].kind == 0 -> post(2) }
#endif
  :: atomic { !RENEWABLE(TOKEN(me[p].g)) -> lose(); goto end_idle }
  :: atomic { forget(); MARK(kill_before_send); goto end_idle }
  fi;

  if                             /* the answer, or none                                        */
#ifdef UNKNOWN_IS_OK             /* MUTANT                                                     */
  :: atomic { true ->
#else
  :: atomic { me[p].landed ->                      /* ok; or unknown, and read back            */
#endif
       MUST(S1, me[p].landed);
       me[p].cur = (me[p].landed == 1); me[p].landed = 0; me[p].lost = false;
       if
       :: me[p].kind == ATTEMPT -> me[p].kind = 0; goto body
       :: me[p].kind == UNIT ->
          me[p].seen = me[p].seen | BIT(me[p].u); me[p].crashed = false;
          me[p].kind = 0; me[p].u = 0; goto boundary
       :: else -> forget(); goto end_idle
       fi }
  :: atomic { me[p].lost ->                        /* fenced off: a definite refusal           */
       MUST(S2, !me[p].landed);
       lose(); goto end_idle }
  :: atomic { (!me[p].landed || !READBACK) && !me[p].cur ->  /* version refused           */
       if
       :: NEWER(TOKEN(me[p].g)) -> MUST(S2, !me[p].landed); lose(); MARK(newer_token); goto end_idle
       :: else ->
          fold(); me[p].lost = false; me[p].landed = 0;
          if
          :: me[p].kind == UNIT -> MARK(unit_sent_at_a_newer_version); goto send
          :: me[p].kind != UNIT && me[p].wish != NONE ->
             me[p].kind = 0; me[p].u = 0; MARK(wish_seen_before_the_body); goto boundary
          :: else -> goto send
          fi
       fi }
  :: atomic { !me[p].landed && me[p].cur && !KEYFREE(me[p].kind, me[p].u) ->
       me[p].seen = me[p].seen | BIT(me[p].u);     /* key refused                              */
       me[p].kind = 0; me[p].u = 0; goto boundary }
  :: goto send                                     /* unknown: the same append again           */
  :: atomic { !RENEWABLE(TOKEN(me[p].g)) -> lose(); goto end_idle }
  :: atomic { forget(); MARK(kill_before_answer); goto end_idle }
  fi
}

/* ---- the store's connections, the clock, late renewals -------------------------------------- */

active proctype store() {
end_store:
  do
  :: atomic { net[0].kind != 0 -> append(0) }
  :: atomic { net[0].kind != 0 -> clear(0); MARK(append_never_arrived) }
#if C > 1
  :: atomic { net[1].kind != 0 -> append(1) }
  :: atomic { net[1].kind != 0 -> clear(1) }
#endif
#if C > 2
  :: atomic { net[2].kind != 0 -> append(2) }
  :: atomic { net[2].kind != 0 -> clear(2) }
#endif
  :: atomic { row && live -> live = false }
#ifdef CLOCK_BACK                /* VARIANT: the store's clock is set back                     */
  :: atomic { row && !live -> live = true }
#endif
  :: atomic { row -> renew(1) }
  :: atomic { row && grant > 1 -> renew(2) }
#if T > 2
  :: atomic { row && grant > 2 -> renew(3) }
#endif
#if T > 3
  :: atomic { row && grant > 3 -> renew(4) }
#endif
  od
}

/* ---- takeover, by any process -------------------------------------------------------------- */

active proctype taker() {
  byte w;
#ifdef EXPIRE_UNLOCKED
  byte t;
#endif
end_taker:
  do
  :: atomic { row && !live -> takercur = true; takerwish = wish;  /* a candidate, its stream loaded           */
#ifdef EXPIRE_UNLOCKED
       t = rowtok
#endif
     };
     atomic { expire(); takercur = false; takerwish = NONE; w = 0;
#ifdef EXPIRE_UNLOCKED
       t = 0
#endif
     }
  :: atomic { timeout ->                           /* nobody can move: nothing may be left     */
       MUST(L7, !row && (status >= PAUSED || grant == T)); MARK(quiet); break }
  od
}

/* ---- the operator -------------------------------------------------------------------------- */

inline pause() {                 /* transition                                                 */
  insert(opcur);
  if :: h -> wish = PAUSE; ask() :: else -> status = PAUSED; MARK(paused_while_queued) fi
}

inline cancel() {                /* transition                                                 */
  insert(opcur);
  if :: h -> wish = CANCEL; ask() :: else -> status = CANCELLED; MARK(cancelled_unheld) fi
}

inline resume() { insert(opcur); status = QUEUED; MARK(resumed) }     /* transition                */

inline ask() {
  if :: !asked -> asked = 1 :: else -> MARK(cancel_over_pause) fi
}

active proctype operator() {
  byte n, cmd;
  bool mine, h;                  /* ghost: the command's event ids are in the log              */
end_operator:
  do
  :: atomic { n < K -> n++; if :: cmd = PAUSE :: cmd = CANCEL :: cmd = RESUME fi };
load:
     atomic {
       if
       :: cmd == PAUSE && (status == QUEUED || status == RUNNING && wish == NONE)
       :: cmd == CANCEL && (status < COMPLETED && wish != CANCEL)
       :: cmd == RESUME && status == PAUSED
       :: else -> cmd = 0; mine = false; goto end_operator        /* nothing to do             */
       fi;
       opcur = true; held = (status == RUNNING) };
send:
     atomic {
       if
       :: mine && READBACK -> MARK(command_recognised)
       :: (!mine || !READBACK) && NEXT(opcur) ->
          MUST(S2, !mine);
          mine = true; h = held;
          if :: cmd == PAUSE -> pause() :: cmd == CANCEL -> cancel() :: cmd == RESUME -> resume() fi;
          h = false
       :: else -> MARK(command_refused)
       fi };
     if
     :: atomic { mine -> mine = false; held = false; cmd = 0; opcur = false }          /* answered     */
     :: atomic { (!mine || !READBACK) && !opcur -> held = false; goto load }
     :: goto send                                  /* unknown: the same command again          */
     fi
  od
}
