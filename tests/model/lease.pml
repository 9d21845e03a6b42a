/* The lease, claim and append protocol of the job log: one job, its log, its mutable lease row.
 *
 * Check      ./check.sh        (this model, every mutant and variant; README.md has the table)
 * By hand    spin -a lease.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 *            the trace of a failed run, with the same -D: spin -t -p -g lease.pml
 * Sizes      -DW= workers (<= 3)  -DU= units (<= 3)  -DT= grants (<= 4)  -DK= operator commands
 *            -DC= appends on their way (<= 3)  -DR= resumes by a second operator
 * Mutants    -DNAME; MUTANT stands at each place where one takes a defence away
 * Variants   -DNAME; VARIANT stands where one changes the protocol or the world
 *
 * The store's transactions are atomic; everything else is at its worst. A lease expires at ANY
 * moment. An append stays on its way as long as it likes, outlives its sender, is overtaken, is
 * sent again over another connection while the first copy is under way, or is lost; so may its
 * answer be. kill -9 strikes between any two steps and takes all local state. A renewal sent for
 * any grant there ever was may arrive at any time.
 *
 * Two grains. A decision taken at a version that is then passed does nothing but be refused (or, an
 * append that landed, be recognised), so by default that happens at once: look and commit are one
 * step, and a passed append leaves its connection. -DSTEPWISE takes nothing of that for granted:
 * look and commit are two steps, passed appends stay on their way and carry all they carried. The
 * mutants run stepwise; the protocol runs in both.
 *
 * Versions: an expected version is only ever compared with the newest one, so each copy of one
 * is kept as a bit, "still the newest", which every insert clears. An append of several events is
 * one version here, as it is one commit.
 *
 * Left out, because something here covers it: a claim whose answer was lost is read back (a claim
 * answered late) or forgotten (a claim, then a crash); a takeover by proof of death is one whose
 * lease expired at once; a unit commit that renews is a commit followed by a renewal.
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
#ifndef R
#define R 0
#endif

/* An assertion tells its name: pan prints "assertion violated (S6||...)". */
hidden byte S1, S2, S5, S6, S7, S8, S9, S10, S12, ID, WISH, L7;
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
  byte kind, u;                  /* the append; (grant, kind, u, wish) are its event ids       */
  byte landed;                   /* ghost: they are in the log, 1 = nothing came after them    */
#ifdef SPLIT_READBACK
  bool doubt;                    /* it looked for them in the log, and found nothing           */
#endif
  bool twin;                     /* ghost: so they are, or it is, from an earlier build        */
  bool lost                      /* the store's answer: fenced off                             */
};
Worker me[W];

/* ---- appends on their way; takeover and operator between look and commit ------------------- */
typedef Message {
  byte kind, g;
  byte who;                      /* the worker that waits for the answer, + 1; 0 = none does   */
  bool cur;                      /* the version it expects is still the newest                 */
  byte ckpt, wish, u;
  byte dup                       /* ghost: its ids are in the log, 2 = where it expects them   */
};
Message net[C];

bool takercur, opcur;            /* the version they have folded up to is still the newest     */
byte takerwish, takertok;        /* and what they saw there                                    */
bool opheld;

/* scratch inside one step, no part of the state */
hidden Message in;
hidden byte w;

#define BIT(u)    (1 << (u))
#define HAS(s, u) (((s) >> (u)) & 1)
#define ALL       (BIT(U) - 1)
#define PREFIX(s) (HAS(s, 0) -> (HAS(s, 1) -> (HAS(s, 2) -> 3 : 2) : 1) : 0)

#ifdef SPLIT_READBACK
#define DOUBT_OVER me[p].doubt = false
#else
#define DOUBT_OVER skip
#endif

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

/* ---- the defences, and the mutants that take them away ------------------------------------- */

#if defined(TOKREUSE) || defined(TOKREUSE_DEEP)    /* MUTANTS: counted in the row, which goes  */
#define TOKEN(g) 1
#else
#define TOKEN(g) (g)
#endif

#if defined(NOVERSION) || defined(NOVERSION_MAX)   /* MUTANTS: no compare-and-set              */
#define NEXT(cur) true
#else
#define NEXT(cur) (cur)
#endif

#ifdef NO_READBACK               /* MUTANT: unknown = refused, built anew with new event ids   */
#define READBACK false
#else
#define READBACK true
#endif

#if defined(NODEDUP) || defined(NOLOOKUP)          /* MUTANTS: results are not looked up       */
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
#define FENCE true
#elif defined(FENCE_NEWEST)                        /* MUTANT: on the newest token, not the row */
#define FENCE (toktop == TOKEN(in.g))
#elif defined(RELEASE_IGNORES_TOKEN)               /* MUTANT: DELETE ... WHERE job_id          */
#define FENCE (in.kind == RELEASE || row && rowtok == TOKEN(in.g) && VALID)
#else
#define FENCE (row && rowtok == TOKEN(in.g) && VALID)
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

inline passed(i, x) {
#ifdef STEPWISE
  net[i].cur = false
#else
  if
  :: net[i].dup == 2 && READBACK -> clear(i); MARK(recognised)
  :: net[i].kind && (net[i].dup != 2 || !READBACK) -> clear(i); MARK(version_refused)
  :: else
  fi
#endif
}

inline behind(i) { me[i].cur = false; if :: me[i].landed -> me[i].landed = 2 :: else fi }

inline insert(current) {         /* any event: UNIQUE(stream, version)                         */
#ifndef NOVERSION_MAX            /* MUTANT: the store numbers the event itself                 */
  MUST(S5, current);                               /* its version is the newest one + 1        */
#endif
  MUST(S12, !TERMINAL);
  takercur = false; opcur = false;                 /* whatever anyone knows is now passed      */
  EACH_WORKER(behind);
  EACH_MESSAGE(passed, 0);
  pack()
}

inline drop_row() {
  row = false; live = false; rowtok = 0; rowg = 0; told = false;
  if :: asked -> asked = 3 :: else fi
}

inline honour(asks) {            /* paused or cancelled, in the commit that frees the job      */
  if
  :: asks == PAUSE -> status = PAUSED; MARK(pause_honoured)
  :: asks == CANCEL -> status = CANCELLED; MARK(cancel_honoured)
  :: else -> status = QUEUED; MARK(queued_again)
  fi;
#ifdef WISH_LATER                /* VARIANT: left to the next holder's first boundary          */
  if :: asks != NONE -> wish = NONE :: else fi;
#else
  wish = NONE;
#endif
  if :: asks != NONE -> asked = 0 :: else fi
}

/* ---- the holder's appends: the store's one transaction -------------------------------------- */

inline clear(i) {
  net[i].kind = 0; net[i].g = 0; net[i].who = 0; net[i].cur = false;
  net[i].ckpt = 0; net[i].wish = 0; net[i].u = 0; net[i].dup = 0
}

inline move(i, j) {
  net[i].kind = net[j].kind; net[i].g = net[j].g;
  net[i].who = net[j].who; net[i].cur = net[j].cur;
  net[i].ckpt = net[j].ckpt; net[i].wish = net[j].wish;
  net[i].u = net[j].u; net[i].dup = net[j].dup;
  clear(j)
}

inline take(i) {                 /* any of them: they overtake each other                      */
  in.kind = net[i].kind; in.g = net[i].g; in.who = net[i].who; in.cur = net[i].cur;
  in.ckpt = net[i].ckpt; in.wish = net[i].wish; in.u = net[i].u; in.dup = net[i].dup;
  drop(i)
}

inline drop(i) { clear(i); pack() }

inline pack() {                  /* free connections last: they have no names                  */
#if C > 1
  if :: net[0].kind == 0 -> move(0, 1) :: else fi;
#endif
#if C > 2
  if :: net[1].kind == 0 -> move(1, 2) :: else fi;
  if :: net[0].kind == 0 -> move(0, 1) :: else fi;
#endif
  skip
}

/* the append in hand is what worker p is about */
#define MINE(p) (in.kind == me[p].kind && in.u == me[p].u && \
  (in.kind != RELEASE || in.wish == me[p].wish))

inline mark_copy(i, x) {
  if
  :: net[i].kind == in.kind && net[i].g == in.g && net[i].u == in.u && net[i].wish == in.wish ->
     net[i].dup = (net[i].cur -> 2 : 1)
  :: else
  fi
}

inline land() {
  MUST(ID, !in.dup);                               /* no event id twice                        */
  MUST(S2, !told);                                 /* nothing after a definite refusal         */
  MUST(S6, row && rowg == in.g);                   /* only the grant that holds the job        */
  EACH_MESSAGE(mark_copy, 0);
  insert(in.cur);
  if
  :: in.who && MINE(in.who - 1) -> me[in.who - 1].landed = 1
  :: else -> MARK(landed_unheard)
  fi;
  if
  :: in.kind == ATTEMPT -> MARK(unit_attempted)
  :: in.kind == UNIT ->
     MUST(S8, !HAS(units, in.u));
     MUST(S9, HAS(effect, in.u));
     MUST(S10, in.ckpt >= ckpt);
     MUST(WISH, asked <= 1);
     if :: asked -> asked = 2; MARK(unit_recorded_after_the_wish) :: else fi;
     if :: in.ckpt <= in.u -> MARK(out_of_order) :: else fi;
     units = units | BIT(in.u); ckpt = in.ckpt; crashed = false; MARK(unit_completed)
  :: in.kind == RELEASE -> drop_row(); honour(in.wish)
  :: in.kind == DONE ->
     MUST(S10, ckpt == U);
     MUST(WISH, !asked || wish == PAUSE);          /* nothing is left to pause                 */
     if :: wish == PAUSE -> MARK(completed_over_a_pause) :: else -> MARK(completed) fi;
     drop_row(); status = COMPLETED; wish = NONE; asked = 0
  fi
}

inline fenced() {                /* a definite answer, to the sender if it still asks          */
  if
  :: in.who && me[in.who - 1].cur == in.cur && MINE(in.who - 1) ->
     me[in.who - 1].lost = true; MARK(fenced_off)
  :: else -> MARK(fenced_off_unheard)
  fi
}

inline append(i) {               /* transition; the order of the checks matters                */
  take(i);
  if
#ifdef FENCE_FIRST               /* MUTANT: "lost" is answered for what is in the log          */
  :: !FENCE -> fenced()
#endif
  :: in.dup == 2 && READBACK ->                    /* 1 read back: its ids, where it expects them */
     MARK(recognised);
#ifdef BLINDCKPT                 /* MUTANT: answered by setting the checkpoint again           */
     if :: in.kind == UNIT -> MUST(S10, in.ckpt >= ckpt); ckpt = in.ckpt :: else fi
#endif
  :: else ->
     if
     :: !NEXT(in.cur) -> MARK(version_refused)     /* 2 compare-and-set                        */
     :: NEXT(in.cur) && !FENCE -> fenced()         /* 3 fence on the lease row                 */
     :: NEXT(in.cur) && FENCE && KEYFREE(in.kind, in.u) -> land()
     :: NEXT(in.cur) && FENCE && !KEYFREE(in.kind, in.u) -> MARK(key_refused)  /* 4 unit key   */
     fi
  fi;
  in.kind = 0
}

/* ---- the lease row ------------------------------------------------------------------------- */

inline renew(g) {                /* transition: one statement for all jobs of a process        */
#ifndef TOKREUSE_DEEP            /* MUTANT: goes on, to show what follows                      */
  MUST(S6, rowg == g);
#endif
  live = true; MARK(renewed)
}

inline expire() {                /* transition: takeover, decided under the row lock           */
  if
#ifdef EXPIRE_UNLOCKED           /* VARIANT: decided by an earlier look at the row             */
  :: row && rowtok == takertok && NEXT(takercur) ->
#elif defined(EXPIRE_NOVERSION)  /* MUTANT: the row lock alone, numbered under it              */
  :: row && !live -> takercur = true;
#else
  :: row && !live && NEXT(takercur) ->
#endif
     MUST(S7, !live);
     w = takerwish;
     insert(takercur); crashed = true; drop_row(); MARK(expired);
#if defined(WISH_LOST) || defined(WISH_LATER)      /* MUTANT, VARIANT                          */
     honour(NONE)
#else
     if :: w != NONE -> MARK(wish_of_a_dead_holder) :: else fi;
     honour(w)
#endif
  :: else -> MARK(takeover_refused)
  fi;
  takercur = false; takerwish = NONE; takertok = 0
}

/* ---- the worker ---------------------------------------------------------------------------- */

inline fold() {                  /* it loads the stream, and the unit results                  */
  me[p].cur = true; me[p].seen = RESULTS; me[p].wish = wish; me[p].crashed = crashed;
  if :: me[p].landed -> me[p].twin = true :: else fi;             /* in mutants only           */
  me[p].landed = 0; me[p].lost = false; DOUBT_OVER
}

inline orphan(i, p) { if :: net[i].who == p + 1 -> net[i].who = 0 :: else fi }

inline forget() {                /* lost, handed back, or kill -9                              */
  me[p].g = 0; me[p].cur = false; me[p].seen = 0; me[p].wish = 0; me[p].crashed = 0;
  me[p].kind = 0; me[p].u = 0; me[p].landed = 0; me[p].twin = false; me[p].lost = false;
  DOUBT_OVER;
  EACH_MESSAGE(orphan, p)
}

inline lose() {                  /* it was told for good: this grant appends no more           */
  if :: row && rowg == me[p].g -> told = true; MARK(told_before_the_takeover) :: else fi;
  forget()
}

inline stop() {                  /* its renewal found no row                                   */
#ifdef EXPIRY_NOT_FENCED         /* VARIANT: that says nothing about an append under way       */
  forget()
#else
  lose()
#endif
}

inline claim() {                 /* transition                                                 */
  insert(me[p].cur);
  grant++;
#ifndef TOKREUSE_DEEP            /* MUTANT: goes on, to show what follows                      */
  MUST(S7, TOKEN(grant) > toktop);
#endif
  MUST(S7, !row);                                  /* expired or released, both by an event    */
  toktop = TOKEN(grant); status = RUNNING;
  row = true; live = true; rowtok = toktop; rowg = grant;
  me[p].g = grant; fold(); MARK(claimed);
  if :: grant >= T -> MARK(all_grants_used) :: else fi
}

inline attempt_unit() { me[p].kind = ATTEMPT }     /* transition: committed before the body    */
inline complete_units() { me[p].kind = UNIT }      /* transition: one commit, also the checkpoint */
inline release() { me[p].kind = RELEASE }          /* transition: honours the wish, if any     */
inline complete() { me[p].kind = DONE }            /* transition                               */

inline post(i) {
  net[i].kind = me[p].kind; net[i].g = me[p].g; net[i].who = p + 1; net[i].cur = me[p].cur;
  net[i].u = me[p].u;
  net[i].ckpt = (me[p].kind == UNIT -> PREFIX(me[p].seen | BIT(me[p].u)) : 0);
  net[i].wish = (me[p].kind == RELEASE -> me[p].wish : 0);
  net[i].dup = (me[p].landed -> 2 : (me[p].twin -> 1 : 0))
}

inline accept() {                /* ok; or unknown, then read back as ok                       */
  MUST(S1, me[p].landed);
  me[p].cur = (me[p].landed == 1); me[p].landed = 0; me[p].twin = false; me[p].lost = false;
  DOUBT_OVER;
  if
  :: me[p].kind == UNIT ->
     me[p].seen = me[p].seen | BIT(me[p].u); me[p].crashed = false; me[p].kind = 0; me[p].u = 0
  :: me[p].kind == ATTEMPT -> me[p].kind = 0
  :: else -> forget()
  fi
}

inline act() {                   /* the body's side effect                                     */
#ifndef NODEDUP                  /* MUTANT: goes on, to show what follows                      */
  MUST(S9, !(me[p].cur && HAS(units, me[p].u)));   /* not again what it could know is recorded */
#endif
  effect = effect | BIT(me[p].u)
}

#define NO_WISH  (me[p].wish == NONE)
#define UNDONE(x) (x < U && !HAS(me[p].seen, x))
#define MUST_ATTEMPT(x) (x == 0 || me[p].crashed)  /* unit 0 uses a gate; any after a crash    */
#ifdef WISH_IGNORED              /* MUTANT: the worker goes on                                 */
#define GO_ON true
#else
#define GO_ON NO_WISH
#endif
#ifdef UNKNOWN_IS_OK             /* MUTANT                                                     */
#define ACCEPTED true
#else
#define ACCEPTED me[p].landed
#endif
#ifdef SPLIT_READBACK            /* MUTANT: "not there" and "that version is taken" are two reads */
#define REFUSED  (me[p].doubt && !me[p].cur)
#else
#define REFUSED  ((!me[p].landed || !READBACK) && !me[p].cur)  /* by version, and read back    */
#endif
#define RENEWAL_REFUSED !RENEWABLE(TOKEN(me[p].g))
#ifdef STEPWISE
#define SENDABLE true
#else
#define SENDABLE me[p].cur
#endif

active [W] proctype worker() {   /* the first ones, so that _pid is 0 .. W-1                   */
  byte p = _pid;

end_idle:
#ifdef STEPWISE
  if :: d_step { status == QUEUED && grant < T -> me[p].cur = true } fi;      /* an index row  */
  if
  :: d_step { NEXT(me[p].cur) && !row -> claim() }                /* the row's key is the job  */
  :: d_step { !(NEXT(me[p].cur) && !row) -> me[p].cur = false; MARK(claim_refused) }; goto end_idle
  fi;
#else
  if :: d_step { status == QUEUED && grant < T -> me[p].cur = true; claim() } fi;
#endif

boundary:
  if                             /* any unit not done: those of one job may finish out of order */
  :: d_step { GO_ON && UNDONE(0) && MUST_ATTEMPT(0) -> me[p].u = 0; attempt_unit() }; goto ask
  :: d_step { GO_ON && UNDONE(1) && MUST_ATTEMPT(1) -> me[p].u = 1; attempt_unit() }; goto ask
  :: d_step { GO_ON && UNDONE(2) && MUST_ATTEMPT(2) -> me[p].u = 2; attempt_unit() }; goto ask
  :: d_step { GO_ON && UNDONE(1) && !MUST_ATTEMPT(1) -> me[p].u = 1; MARK(no_attempt_needed) }
  :: d_step { GO_ON && UNDONE(2) && !MUST_ATTEMPT(2) -> me[p].u = 2 }
  :: d_step { me[p].wish != CANCEL && me[p].seen == ALL -> complete() }; goto ask
  :: d_step { release() }; goto ask                /* the wish is honoured; else yield, shutdown */
  :: d_step { RENEWAL_REFUSED -> stop() }; goto end_idle
  :: d_step { forget(); MARK(killed_at_the_boundary) }; goto end_idle
  fi;

body:
  if
#ifdef EFFECT_LATE               /* MUTANT: reported before it is done                         */
  :: d_step { complete_units() }
#endif
  :: d_step { act(); complete_units() }
  :: d_step { RENEWAL_REFUSED -> stop() }; goto end_idle
  :: d_step { forget(); MARK(killed_in_the_body) }; goto end_idle
  fi;

ask:                             /* send, send again while the answer is unknown, be answered  */
  if
  :: d_step { SENDABLE && net[0].kind == 0 -> post(0) }; goto ask
#if C > 1
  :: d_step { SENDABLE && net[0].kind && net[1].kind == 0 -> post(1); MARK(two_under_way) }; goto ask
#endif
#if C > 2
  :: d_step { SENDABLE && net[1].kind && net[2].kind == 0 -> post(2) }; goto ask
#endif
  :: d_step { ACCEPTED && me[p].kind == ATTEMPT -> accept() }; goto body
  :: d_step { ACCEPTED && me[p].kind == UNIT -> accept() }; goto boundary
  :: d_step { ACCEPTED && me[p].kind >= RELEASE -> accept() }; goto end_idle
  :: d_step { me[p].lost -> MUST(S2, !me[p].landed); lose(); MARK(refused_for_good) }; goto end_idle
  :: d_step { REFUSED && NEWER(TOKEN(me[p].g)) ->
       MUST(S2, !me[p].landed); lose(); MARK(newer_token) }; goto end_idle
  :: d_step { REFUSED && !NEWER(TOKEN(me[p].g)) && (wish == NONE || me[p].kind <= UNIT) ->
       fold(); MARK(same_append_at_a_newer_version) }; goto ask
  :: d_step { REFUSED && !NEWER(TOKEN(me[p].g)) && me[p].kind != UNIT && wish != NONE ->
       fold(); me[p].kind = 0; me[p].u = 0; MARK(wish_met_outside_a_body) }; goto boundary
  :: d_step { !me[p].landed && me[p].cur && !KEYFREE(me[p].kind, me[p].u) ->   /* done before  */
       me[p].seen = me[p].seen | BIT(me[p].u); me[p].kind = 0; me[p].u = 0 }; goto boundary
#ifdef SPLIT_READBACK
  :: d_step { !me[p].landed -> me[p].doubt = true }; goto ask
#endif
  :: d_step { RENEWAL_REFUSED -> stop() }; goto end_idle
  :: d_step { forget(); MARK(killed_before_the_answer) }; goto end_idle
  fi
}

/* ---- the way to the store, the clock, late renewals ----------------------------------------- */

active proctype store() {
end_store:
  do
  :: d_step { net[0].kind -> append(0) }
  :: d_step { net[0].kind -> drop(0); MARK(never_arrived) }
#if C > 1
  :: d_step { net[1].kind -> append(1) }
  :: d_step { net[1].kind -> drop(1) }
#endif
#if C > 2
  :: d_step { net[2].kind -> append(2) }
  :: d_step { net[2].kind -> drop(2) }
#endif
  :: d_step { row && live -> live = false }
#ifdef CLOCK_BACK                /* VARIANT: the store's clock is set back                     */
  :: d_step { row && !live -> live = true }
#endif
  :: d_step { RENEWABLE(TOKEN(1)) -> renew(1) }    /* of whoever once had that grant           */
  :: d_step { grant > 1 && RENEWABLE(TOKEN(2)) -> renew(2) }
  :: d_step { grant > 2 && RENEWABLE(TOKEN(3)) -> renew(3) }
  :: d_step { grant > 3 && RENEWABLE(TOKEN(4)) -> renew(4) }
  od
}

/* ---- takeover, by any process -------------------------------------------------------------- */

active proctype taker() {
end_taker:
  do
#if defined(NO_TAKEOVER)         /* MUTANT                                                     */
#elif defined(STEPWISE)
  :: d_step { row && !live -> takercur = true; takerwish = wish; takertok = rowtok };
     d_step { true -> expire() }
#else
  :: d_step { row && !live -> takercur = true; takerwish = wish; takertok = rowtok; expire() }
#endif
  :: timeout ->                                    /* nobody can move: nothing may be left     */
     MUST(L7, !row && (status >= PAUSED || grant >= T)); MARK(quiet); break
  od
}

/* ---- the operator -------------------------------------------------------------------------- */

inline ask(asks) {
  wish = asks;
  if :: !asked -> asked = 1 :: else -> MARK(cancel_over_pause) fi
}

inline pause() {                 /* transition                                                 */
  if
  :: w -> ask(PAUSE); MARK(pause_requested)
  :: else -> status = PAUSED; MARK(paused_unheld)
  fi
}
inline cancel() {                /* transition                                                 */
  if
  :: w -> ask(CANCEL); MARK(cancel_requested)
  :: else -> status = CANCELLED; MARK(cancelled_unheld)
  fi
}
inline resume() {                /* transition                                                 */
  if
  :: w -> wish = NONE; asked = 0; MARK(pause_withdrawn)
  :: else -> status = QUEUED; MARK(resumed)
  fi
}

#define MAY(c) ((c) == PAUSE && (status == QUEUED || status == RUNNING && wish == NONE) || \
                (c) == CANCEL && !TERMINAL && wish != CANCEL || \
                (c) == RESUME && (status == PAUSED || status == RUNNING && wish == PAUSE))

inline look() { opcur = true; opheld = (status == RUNNING) }

inline command() {
  MUST(ID, !mine);
  w = opheld; insert(opcur); mine = true;
  if :: cmd == PAUSE -> pause() :: cmd == CANCEL -> cancel() :: cmd == RESUME -> resume() fi
}

inline answered() { mine = false; opheld = false; opcur = false; cmd = 0 }

active proctype operator() {
  byte n, cmd;
  bool mine;                     /* ghost: the command's event ids are in the log              */
end_operator:
  do
#ifndef STEPWISE
  :: d_step { n < K && MAY(PAUSE) -> n++; cmd = PAUSE; look(); command(); answered() }
  :: d_step { n < K && MAY(CANCEL) -> n++; cmd = CANCEL; look(); command(); answered() }
  :: d_step { n < K && MAY(RESUME) -> n++; cmd = RESUME; look(); command(); answered() }
#else
  :: n < K -> n++; if :: cmd = PAUSE :: cmd = CANCEL :: cmd = RESUME fi;
look_first:
     if
     :: d_step { MAY(cmd) -> look() }
     :: d_step { !MAY(cmd) -> answered() }; goto end_operator
     fi;
commit:
     if
     :: d_step { mine && READBACK -> MARK(command_recognised) }
     :: d_step { (!mine || !READBACK) && NEXT(opcur) -> command() }
     :: d_step { (!mine || !READBACK) && !NEXT(opcur) -> MARK(command_refused) }
     fi;
     if
     :: d_step { mine -> answered() }
     :: d_step { (!mine || !READBACK) && !opcur -> opheld = false }; goto look_first
     :: goto commit                                /* unknown: the same command again          */
     fi
#endif
  od
}

#if R > 0
active proctype second_operator() {
  byte n;
end_second:
  do
  :: d_step { n < R && MAY(RESUME) -> n++; w = (status == RUNNING); insert(true); resume() }
  od
}
#endif
