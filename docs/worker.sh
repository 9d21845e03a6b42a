#!/bin/sh
# A joblog worker in shell and curl: imports the lines of a file into another, 10 lines a unit.
# Usage: JOBLOG_URL=http://127.0.0.1:8765 JOBLOG_TOKEN=jl_… sh worker.sh NAME [--until-idle]
set -u
name=$1; once=${2:-}; size=10

ask() { # METHOD PATH [BODY]: the answer's body on stdout; its status decides.  Lost answers are asked for again.
    code=000
    while [ "$code" = 000 ] || [ "$code" = 503 ]; do
        answer=$(curl -s -o - -w '\n%{http_code}' -X "$1" "$JOBLOG_URL$2" \
            -H "Authorization: Bearer $JOBLOG_TOKEN" -H 'Content-Type: application/json' ${3:+-d "$3"})
        code=${answer##*
}
        [ "$code" = 000 ] || [ "$code" = 503 ] && { kill -0 $$ 2> /dev/null || exit 1; sleep 0.2; } # not longer than the worker
    done
    printf '%s' "${answer%
*}"
    [ "$code" -lt 300 ]
}
field() { printf '%s' "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/p"; } # a plain field of compact JSON

run() { # ID TOKEN FILE TARGET CHECKPOINT
    base="/api/v1/claims/$1"; n=$5
    while :; do
        lines=$(sed -n "$((n * size + 1)),$(((n + 1) * size))p" "$3")
        [ -n "$lines" ] || break
        found=$(ask GET "$base/units/lines:$n") || return 0               # done already, and only its answer lost?
        if [ "$(field "$found" done)" = false ]; then
            printf '%s\n' "$lines" > "$4/$n.part.$name" && mv "$4/$n.part.$name" "$4/$n"   # safe to repeat
        fi
        held=$(ask POST "$base/advance" "{\"token\":\"$2\",\"unit\":\"lines:$n\",\"evidence\":{\"file\":\"$n\"}}") || return 0
        n=$((n + 1))
        [ -z "$(field "$held" wish)" ] || { ask POST "$base/release" "{\"token\":\"$2\"}" > /dev/null; return 0; }
        [ -z "${SLOW:-}" ] || sleep "$SLOW"
    done
    ask POST "$base/complete" "{\"token\":\"$2\",\"result\":{\"units\":$n}}" > /dev/null
}

while :; do
    claims=$(ask POST /api/v1/claims "{\"worker\":\"$name\",\"kinds\":[\"lines.import\"],\"wait\":${WAIT:-20}}") || exit 1
    id=$(field "$claims" id)
    if [ -z "$id" ]; then [ "$once" = --until-idle ] && exit 0; continue; fi
    run "$id" "$(field "$claims" token)" "$(field "$claims" file)" "$(field "$claims" target)" "$(field "$claims" checkpoint)"
done
