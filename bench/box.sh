# SPDX-License-Identifier: MIT
# What bench/flagship and bench/streaming share; to be read with `.`: the emulated box, figures out of
# `smol bench --json`, and lines that end with figure, goal and `ok` or `short`.
# shellcheck shell=bash

bench=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
smol=$(readlink -f "${SMOL:-$bench/../build/smol}")
box=$bench/tvbox/tvbox
flash_mb_s=278
work=$(mktemp -d)
mount=$work/flash
short=0
export XDG_CACHE_HOME=$work/cache # profiles and lists of the emulated flash stay here

leave() {
    if mountpoint -q "$work/flash"; then umount "$work/flash" || umount -l "$work/flash"; fi
    rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

need_root() {
    if [ "$(id -u)" != 0 ] || ! pkg-config --exists fuse3; then
        echo "needs root, libfuse3-dev and pkg-config (see bench/tvbox/README.md)" >&2
        exit 2
    fi
    [ -x "$smol" ] || { echo "no program at $smol: build it, or set SMOL" >&2; exit 2; }
}

calc() { awk "BEGIN { printf \"%.${2:-3}f\", ($1) }"; }

# flash FOLDER [ALL_MB_S ONE_MB_S LATENCY_US [READAHEAD_KIB]]: mount afresh at $mount
flash() {
    SLOWFS=$work/slowfs "$bench/tvbox/flash-up" "$1" "$mount" "${2:-278}" "${3:-200}" "${4:-300}" \
        "${5:-128}"
    flash_mb_s=${2:-278}
}

# field NAME FILE: the first number of that name in a JSON file
field() { sed -n "s/.*\"$1\": *\\(-\\{0,1\\}[0-9.e+-]*\\).*/\\1/p" "$2" | head -1; }

# make NAME SHAPE [options]: a made-up model in $files, kept between runs
make_model() {
    local name=$1; shift
    [ -s "$files/$name" ] && return
    echo "# making $files/$name" >&2
    "$smol" synth "$@" "$files/$name.new" --quiet
    mv "$files/$name.new" "$files/$name"
}

# in_box MIB COMMAND...: sets $peak and $kills; 0 MIB: no box. Output of the command to $work/out.
in_box() {
    local mib=$1 code=0; shift
    peak=0 kills=0
    if [ "$mib" = 0 ]; then
        "$@" > "$work/out" 2> "$work/log" || code=$?
    else
        "$box" "$mib" "$@" > "$work/out" 2> "$work/log" || code=$?
        peak=$(sed -n 's/.*peak_mib=\([0-9]*\).*/\1/p' "$work/log")
        kills=$(sed -n 's/.*oom_kill=\([0-9]*\).*/\1/p' "$work/log")
    fi
    [ $code = 0 ] || { echo "# failed with $code: $(grep -v tvbox "$work/log" | tail -1)" >&2; return 1; }
}

# decode MIB FILE N [options]: N tokens behind 16 of context, warm. Sets ms (a token), misses, wait_ms,
# read (bytes a token), slots, budget (MiB).
decode() {
    local mib=$1 file=$2 n=$3; shift 3
    in_box "$mib" "$smol" bench "$file" --prompt-tokens 0 -n "$n" --depths 16 --runs 2 --ctx 512 \
        --json --quiet "$@" || return 1
    ms=$(calc "1000 / $(field tok_s "$work/out")")
    misses=$(field misses_per_token "$work/out")
    wait_ms=$(calc "1000 * $(field demand_wait_seconds_per_token "$work/out")")
    read=$(field bytes_read_per_token "$work/out")
    slots=$(field pool_slots_per_layer "$work/out")
    budget=$(calc "$(field budget_bytes "$work/out") / 1048576" 0)
}

# verdict TEXT FIGURE "<=" GOAL, or ">="
verdict() {
    local word=ok
    awk "BEGIN { exit !($2 $3 $4) }" || { word=short; short=$((short + 1)); }
    echo "$1: $2, goal $3 $4  $word"
}

# same_text MIB FILE N REFERENCE [options]: the answer equals that of the run without a box
same_text() {
    local mib=$1 file=$2 n=$3 reference=$4; shift 4
    in_box "$mib" "$smol" run "$file" --raw -p "the captain looked" -n "$n" --temp 1 --top-k 0 \
        --top-p 1 --min-p 0 --seed 7 --ctx 512 --no-learn --quiet "$@" || return 1
    if [ ! -s "$reference" ]; then cp "$work/out" "$reference"; return; fi
    if cmp -s "$work/out" "$reference"; then echo "  text of $n tokens: same, goal same  ok"
    else echo "  text of $n tokens: differs, goal same  short"; short=$((short + 1)); fi
}

# law2 MIB: the group's peak of the run before against its limit, and the plan's budget
law2() {
    verdict "  memory: group's peak in MiB (limit $1, killed ${kills:-0})" "$peak" "<=" \
        "$(calc "$budget < $1 ? $budget : $1" 0)"
}

# llama_ms MIB FILE SHORT LONG: steady time a token of LLAMA ("… llama-completion"); empty: failed
llama_ms() {
    local mib=$1 file=$2 n times=
    for n in "$3" "$4"; do
        # shellcheck disable=SC2086
        in_box "$mib" $LLAMA -m "$file" -p "the captain looked" -n "$n" --temp 0 -no-cnv -c 512 \
            --no-warmup --ignore-eos --no-repack --simple-io -t "$(nproc)" < /dev/null \
            > "$work/llama" || { llama=; return 1; }
        times="$times $(sed -n 's/.*[^t] eval time = *\([0-9.]*\) ms.*/\1/p' "$work/log" "$work/out" |
            tail -1)"
    done
    # shellcheck disable=SC2086
    set -- $times $(($4 - $3))
    llama=$(calc "($2 - $1) / $3")
}
