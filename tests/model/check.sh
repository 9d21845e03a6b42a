#!/usr/bin/env bash
# Check lease.pml: the protocol must hold; every mutant must fail, by the invariant it is made for.
#
#   check.sh                 all runs of the table below
#   check.sh --full          also the large ones (5 minutes, 2 GB)
#   check.sh NAME...         only these, of either table
#   check.sh --trace NAME    a short trace of a run that fails
#
# One line a run: name, states, seconds (compiling included), result, as expected or NOT.
# JOBS=n: so many runs side by side (default 2).
set -u

for tool in spin gcc; do
  if ! command -v "$tool" >/dev/null; then
    echo "check.sh: no $tool. Get both: apt-get update && apt-get install -y spin gcc libc6-dev" >&2
    exit 1
  fi
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# name | -D flags | expected: "holds", or the invariant that must be violated.
# A name in capitals is itself a flag: the mutant or variant of that name in lease.pml.
table='
protocol                             | K=2                  | holds
protocol-stepwise                    | STEPWISE T=2 K=1 U=1 | holds
NOFENCE                              | STEPWISE             | S6
FENCE_NEWEST                         | STEPWISE             | S6
NODEDUP                              | STEPWISE T=2 K=0     | S8
NOLOOKUP                             | STEPWISE T=2 K=0     | S9
TOKREUSE                             | STEPWISE             | S7
TOKREUSE_DEEP                        | STEPWISE             | S6
BLINDCKPT                            | STEPWISE             | S10
NOVERSION                            | STEPWISE             | S5
NOVERSION_MAX                        | STEPWISE             | S12
NOVERSION_MAX,one-grant              | STEPWISE T=1 K=1 U=1 | ID
RENEW_IGNORES_EXPIRY                 | STEPWISE             | S2
RENEW_IGNORES_EXPIRY,EXPIRE_UNLOCKED | STEPWISE             | S7
RENEW_IGNORES_TOKEN                  | STEPWISE             | S6
RELEASE_IGNORES_TOKEN                | STEPWISE             | S6
NO_READBACK                          | STEPWISE             | ID
NO_READBACK,two-operators            | STEPWISE T=0 K=1 R=1 | ID
FENCE_FIRST                          | STEPWISE             | S2
SPLIT_READBACK                       | STEPWISE T=1 K=0 U=1 | ID
UNKNOWN_IS_OK                        | STEPWISE             | S1
EFFECT_LATE                          | STEPWISE             | S9
WISH_LOST                            | K=1                  | WISH
EXPIRE_NOVERSION                     | STEPWISE T=2 K=1 U=1 | WISH
WISH_IGNORED                         | K=1                  | WISH
NO_TAKEOVER                          | K=0 U=1              | L7
CLOCK_BACK                           | STEPWISE             | S2
NOUNIQUE                             | T=2 K=1              | holds
TRUST_STORE                          | T=2 K=1 U=1          | holds
EXPIRE_UNLOCKED                      | STEPWISE T=2 K=0 U=1 | holds
WISH_LATER                           | T=2 K=1              | holds
EXPIRY_NOT_FENCED                    | STEPWISE T=2 K=0 U=1 | holds
EXPIRY_NOT_FENCED,CLOCK_BACK         | STEPWISE T=2 K=0 U=1 | holds'
full='
full-3-commands                      | T=3 K=3              | holds
full-4-grants                        | T=4 K=3              | holds
full-3-units                         | T=3 K=3 U=3          | holds
full-3-connections                   | T=3 K=3 C=3          | holds
full-3-workers                       | T=3 K=1 W=3          | holds
full-stepwise-3-grants               | STEPWISE T=3 K=0 U=1 | holds
full-stepwise-2-commands             | STEPWISE T=2 K=2 U=1 | holds
full-stepwise-2-units                | STEPWISE T=2 K=1 U=2 | holds'

# Situations the protocol must never meet: another defence comes first (README.md).
never=key_refused

trace=
case ${1-} in
  --full) table=$table$full; shift ;;
  --trace) trace=${2:?--trace needs the name of a run} ;;
esac
[ $# -eq 0 ] || table=$table$full

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

defines() {  # name, flags
  local word
  for word in ${1//,/ } $2; do
    [[ $word =~ ^[A-Z][A-Z0-9_]*(=[0-9]+)?$ ]] && printf -- '-D%s ' "$word"
  done
}

judge() {  # in the directory of a run: "holds", the invariant violated, or what went wrong
  local violated
  [ -x pan ] || { echo "does not build: $(grep -him1 error ./*.out)"; return; }
  violated=$(sed -n 's/^pan:1: assertion violated (\([A-Z0-9]*\)||.*/\1/p' pan.out)
  if [ -n "$violated" ]; then
    echo "$violated"
  elif grep -q 'errors: 0$' pan.out && ! grep -qiE 'not completed|too small|MEMLIM' pan.out; then
    echo holds
  else
    grep -m1 '^pan:' pan.out || echo "pan says nothing"
  fi
}

report() {  # key, name, middle, expected, got
  local verdict="as expected"
  [ "$5" = "$4" ] || verdict="NOT as expected ($4)"
  printf '%-36s %s  %-5s  %s\n' "$2" "$3" "$5" "$verdict" >"$work/$1.line"
}

run() {  # key, name, flags, expected
  local flags level=-O0 begin states
  flags=$(defines "$2" "$3")
  [[ $2 == protocol* || $2 == full* ]] && level=-O1
  [ "$4" = holds ] && flags="$flags -DMARKS"
  begin=$(date +%s%N)
  mkdir "$work/$1" && cd "$work/$1" && cp "$here/lease.pml" . || return
  # shellcheck disable=SC2086
  spin -a $flags lease.pml >spin.out 2>&1 &&
    gcc $level -w -DSAFETY -DNOREDUCE -DNOFAIR -DMEMLIM=1900 -o pan pan.c >gcc.out 2>&1 &&
    ./pan -m10000 >pan.out 2>&1
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out 2>/dev/null)
  report "$1" "$2" "$(awk -v n="${states:-0}" -v a="$begin" -v b="$(date +%s%N)" \
    'BEGIN { printf "%9d states %6.1f s", n, (b - a) / 1e9 }')" "$4" "$(judge)"
}

if [ -n "$trace" ]; then
  line=$(grep -E "^$trace +\|" <<<"$table$full") || { echo "check.sh: no run $trace" >&2; exit 1; }
  flags=$(defines "$trace" "$(cut -d'|' -f2 <<<"$line")")
  cd "$work" && cp "$here/lease.pml" . || exit 1
  # shellcheck disable=SC2086
  spin -a $flags lease.pml >/dev/null && gcc -O1 -w -DSAFETY -DNOREDUCE -DREACH -o pan pan.c &&
    ./pan -m300 -i >/dev/null
  [ -f lease.pml.trail ] || { echo "check.sh: $trace does not fail" >&2; exit 1; }
  # shellcheck disable=SC2086
  spin -t -p -g $flags lease.pml
  exit
fi

key=100
while IFS='|' read -r name flags want; do
  name=${name// /} want=${want// /}
  [ -n "$name" ] || continue
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n; done
  key=$((key + 1))
  (run $key "$name" "$flags" "$want") &
  echo "$name" >"$work/$key.name"
done <<<"$table"
wait

if [ $# -eq 0 ]; then
  # Nothing is vacuous: every MARK of the model is met in a run of the protocol as it is ...
  for file in $(grep -l '^protocol' "$work"/*.name); do cat "${file%.name}/pan.out"; done |
    sed -n 's/^mark //p' | sort -u >"$work/met"
  grep -o 'MARK([a-z0-9_]\{2,\})' "$here/lease.pml" | sed 's/MARK(//; s/)//' | sort -u >"$work/marks"
  missing=$(comm -23 "$work/marks" "$work/met" | tr '\n' ' ')
  report 201 "situations met" "$(printf '%9d of %d          ' "$(wc -l <"$work/met")" "$(wc -l <"$work/marks")")" \
    "all but $never" "all but ${missing% }"
  # ... every invariant is violated by some mutant ...
  missing=
  for id in $(grep -o 'MUST([A-Z0-9]*,' "$here/lease.pml" | sed 's/MUST(//; s/,//' | sort -u); do
    grep -qE "\| $id\$" <<<"$table" || missing="$missing $id"
  done
  report 202 "invariants without a mutant" "                          " "none" "${missing:-none}"
  # ... and the names handed to the code are those of the model.
  sed -n 's/^inline \([a-z_]*\)(.*transition.*/\1/p' "$here/lease.pml" | sort >"$work/names"
  report 203 "transitions.txt" "                          " "same" \
    "$(sort "$here/transitions.txt" | cmp -s - "$work/names" && echo same || echo differs)"
fi

[ $key -gt 100 ] || { echo "check.sh: no run $*" >&2; exit 1; }
cat "$work"/*.line
failed=$(cat "$work"/*.line | grep -c 'NOT as expected')
passed=$(($(cat "$work"/*.line | wc -l) - failed))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
