#!/usr/bin/env bash
# Attention from the shell: health, a call small enough to check by hand, a large one in bfloat16, an error and a
# deadline. Needs grpcurl, jq and perl; grpcurl asks the server itself, by reflection, what its messages are.
#
# usage: attend.sh [HOST:PORT], by default ATTEND_ADDRESS, else 127.0.0.1:8001
set -euo pipefail

address=${1:-${ATTEND_ADDRESS:-127.0.0.1:8001}}

# call METHOD [GRPCURL-OPTION...]: the request's JSON from stdin, the answer's to stdout. Without -max-msg-sz no answer may
# be longer than 4 MB. A failure is JSON too.
call() { grpcurl -plaintext -max-msg-sz 2147483647 -format-error -max-time "${seconds:-30}" -d @ "${@:2}" "$address" "$1"; }
attend() { call attend.v1.AttentionService/Attend; }

# float_tensor SHAPE ELEMENT...: a float32 tensor. Bytes are written in base64 in JSON.
float_tensor() {
  local data
  data=$(perl -e 'print pack("f<*", @ARGV)' "${@:2}" | base64 --wrap=0)
  echo "{\"data_type\": \"DATA_TYPE_FLOAT32\", \"shape\": $1, \"data\": \"$data\"}"
}

# ramp_tensor PERIOD SHAPE COUNT: a bfloat16 tensor of COUNT quarters that rise and fall back: element i is
# (i mod period - period / 2) / 4. A bfloat16 is the upper half of a float32.
ramp_tensor() {
  printf '{"data_type": "DATA_TYPE_BFLOAT16", "shape": %s, "data": "' "$2"
  perl -e 'my ($period, $count) = @ARGV;
           my @elements = map { substr(pack("f<", ($_ - int($period / 2)) / 4), 2) } 0 .. $period - 1;
           print substr(join("", @elements) x ($count / $period + 1), 0, 2 * $count)' "$1" "$3" | base64 --wrap=0
  echo '"}'
}

# tensor_data NAME: the bytes of a tensor in the answer on stdin.
tensor_data() { jq --raw-output ".$1.data" | base64 --decode; }
floats() { perl -e 'local $/; printf "%.4f ", $_ for unpack("f<*", <STDIN>)'; }

# worked_example OPTIONS
worked_example() {
  cat <<JSON
{
  "query": $(float_tensor '[1, 1, 1, 4]' 1 0 0.5 1),
  "key": $(float_tensor '[1, 1, 3, 4]' 1 0 0.8 1 0 1 0.2 0 0.2 0.2 0.4 0.1),
  "value": $(float_tensor '[1, 1, 3, 4]' 0.9 0.1 0.7 0.8 0.1 0.9 0.2 0.1 0.3 0.3 0.5 0.2),
  "options": $1,
  "results": {"weights": true}
}
JSON
}

# 32 sequences of 160 tokens, 8 query heads on 2 kv heads, causal: 7.9 MB there, 5.2 MB back.
large_example() {
  cat <<JSON
{
  "query": $(ramp_tensor 31 '[32, 8, 160, 64]' $((32 * 8 * 160 * 64))),
  "key": $(ramp_tensor 29 '[32, 2, 160, 64]' $((32 * 2 * 160 * 64))),
  "value": $(ramp_tensor 37 '[32, 2, 160, 64]' $((32 * 2 * 160 * 64))),
  "options": {"causal": "CAUSAL_ALIGNMENT_TOP_LEFT"}
}
JSON
}

# print_failure LABEL: what a failed call says to people and, in its details, to programs. Where there was no connection
# grpcurl writes text instead of JSON.
print_failure() {
  jq --raw-input --slurp --raw-output --arg name "$1" '
    (fromjson? // {code: "none", message: .}) |
    (.details // [] | map({(."@type" | sub(".*/"; "")): .}) | add // {}) as $details |
    "\($name)code \(.code): \(.message)",
    ($details["google.rpc.BadRequest"] // empty | "field       \((.fieldViolations // .field_violations)[0].field)"),
    ($details["google.rpc.ErrorInfo"].metadata // empty | "value       \(.value)\nlimit       \(.limit)")'
}

health=$(echo '{}' | call grpc.health.v1.Health/Check)
echo "health      $(jq --raw-output .status <<<"$health")"

answer=$(worked_example '{}' | attend)
echo "weights     $(tensor_data weights <<<"$answer" | floats)"
echo "output      $(tensor_data output <<<"$answer" | floats)"

answer=$(large_example | attend)
echo "large shape $(jq --raw-output '.output.shape | join(" ")' <<<"$answer")"
tensor_data output <<<"$answer" | perl -e '
  local $/;
  my @elements = unpack("f<*", join "", map { pack("vv", 0, $_) } unpack("v*", <STDIN>));
  my $sum = 0;
  $sum += abs for @elements;
  printf "large mean  %.6f\nlarge last  %.4f %.4f %.4f %.4f\n", $sum / @elements, @elements[-4 .. -1]'

# There are 3 keys.
{ worked_example '{"key_lengths": [4]}' | attend || true; } 2>&1 | print_failure 'error       '
{ large_example | seconds=0.05 attend || true; } 2>&1 | print_failure 'deadline    '
