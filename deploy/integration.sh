#!/usr/bin/env bash
# Builds the images of this tree, starts deploy/compose.yaml, runs the tests from
# their container, stops and starts replicas under load, and removes everything:
#
#   deploy/integration.sh [--stops N] [--cuda FOLDER]
#
#   --stops N      how often a replica is stopped under load (default 6)
#   --cuda FOLDER  also builds the image with CUDA, which needs no GPU, and copies
#                  its programs to FOLDER; CUDA_ARCHITECTURES replaces the default
#                  GPU targets
#
# If a Docker engine is running, the script uses its own compose project and
# removes only that. Otherwise, as root on Debian or Ubuntu, it uses an engine
# that deploy/private-engine.sh starts in a network namespace. Downloads and
# builds are kept in QUANTD_ENGINE_CACHE (default ~/.cache/quantd/engine).
set -euo pipefail
cd "$(dirname "$0")/.."

stops=6 cuda=
while [ $# -gt 0 ]; do
  case $1 in
    --stops) stops=${2:?--stops needs a number}; shift ;;
    --cuda) cuda=${2:?--cuda needs a folder}; shift ;;
    --help|-h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "integration: unknown option $1 (try --help)" >&2; exit 2 ;;
  esac
  shift
done

name=quantd-it-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
work=$(mktemp -d "/tmp/$name.XXXX")
cache=${QUANTD_ENGINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quantd/engine}
build_arguments=()
results=$work/results
compose_is_up=''
building=''
fail() {
  echo "integration: $*" >&2
  exit 1
}
phase() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }

# result NAME OUTCOME TIME DESCRIPTION: adds a row to the table.
result() { printf 'check|%s|%s|%s|%s\n' "$2" "$1" "$3" "$4" >>"$results"; }
# expect NAME DESCRIPTION COMMAND...: adds a row that passes if the command
# succeeds. Text that the command writes to descriptor 4 is added to the row.
expect() {
  local row=$1 what=$2 start=$SECONDS outcome=passed
  shift 2
  if ! "$@" >"$work/$row.log" 2>&1 4>"$work/$row.said"; then
    outcome=FAILED
    sed 's/^/    /' "$work/$row.log" | tail -30
  fi
  local said
  said=$(paste -sd' ' "$work/$row.said")
  result "$row" $outcome "$((SECONDS - start)) s" "$what${said:+: $said}"
}

finish() {
  local code=$?
  trap - EXIT
  set +e
  [ -z "$building" ] || kill "$building" 2>/dev/null
  if [ -n "$compose_is_up" ]; then
    [ $code = 0 ] || compose logs --no-color --tail 60 >"$work/services.log" 2>&1
    docker ps -aq --filter "name=$name-" | xargs -r docker rm -f >/dev/null
    compose down -v --timeout 20 >"$work/down.log" 2>&1 ||
      { tail -5 "$work/down.log"; code=1; }
  fi
  [ "$(type -t engine_stop)" != function ] || engine_stop
  if [ $code = 0 ]; then rm -rf "$work"; else echo "logs are in $work" >&2; fi
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

engine_start() { :; }
engine_add_cuda() { :; }
engine_enclose() { :; }
phase "Engine"
if docker info >/dev/null 2>&1; then
  if docker compose version >/dev/null 2>&1; then
    compose() { docker compose -p "$name" -f deploy/compose.yaml --profile cpu "$@"; }
  else
    compose() { docker-compose -p "$name" -f deploy/compose.yaml --profile cpu "$@"; }
  fi
  echo "the Docker engine of this machine"
else
  . deploy/private-engine.sh
  export DOCKER_CONFIG=$work/docker-config
  engine_prepare
  compose() { docker-compose -p "$name" -f deploy/compose.yaml --profile cpu "$@"; }
  echo "no Docker engine is running: starting $(dockerd --version) in the namespace $name"
fi

phase "Images"
engine_start
export DOCKER_BUILDKIT=1
export QUANTD_IMAGE=quantd-it/cpu QUANTD_TESTS_IMAGE=quantd-it/tests
export PROMETHEUS_IMAGE=quantd-it/prometheus
export QUANTD_PORT=0 QUANTD_EDGE_PORT=0 # any free port
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
version=$(deploy/version.sh)
# image TARGET: builds a target of the Dockerfile.
image() {
  local start=$SECONDS
  docker build -f deploy/Dockerfile --target "$1" -t "quantd-it/$1" \
    --build-arg VERSION="$version" --build-arg REVISION="$revision" \
    "${build_arguments[@]}" --progress=plain . >"$work/build-$1.log" 2>&1 &
  # Runs in the background, so that the script handles signals during the build.
  building=$!
  if ! wait $building; then
    tail -40 "$work/build-$1.log"
    fail "the image $1 does not build"
  fi
  building=
  echo "$1: $((SECONDS - start)) s"
}
image cpu
image tests
image prometheus
if [ -n "$cuda" ]; then
  [ -z "${CUDA_ARCHITECTURES:-}" ] ||
    build_arguments+=(--build-arg CUDA_ARCHITECTURES="$CUDA_ARCHITECTURES")
  engine_add_cuda
  image cuda
  docker create --network none --name "$name-cuda" quantd-it/cuda >/dev/null
  mkdir -p "$cuda"
  for program in quantd quantctl; do
    docker cp "$name-cuda:/usr/bin/$program" "$cuda/"
  done
  docker rm "$name-cuda" >/dev/null
fi
engine_enclose

phase "The image alone"
base=$(sed -n 's/^ARG RUNTIME_BASE=//p' deploy/Dockerfile)
for argument in "${build_arguments[@]}"; do
  case $argument in RUNTIME_BASE=*) base=${argument#*=} ;; esac
done
bytes() { docker image inspect -f '{{.Size}}' "$1"; }
image_size() {
  local beyond=$((($(bytes quantd-it/cpu) - $(bytes "$base")) >> 20))
  echo "$beyond MiB" >&4
  [ $beyond -lt 143 ]  # 150 MB
}
image_content() {
  docker create --network none --name "$name-content" quantd-it/cpu >/dev/null
  docker export "$name-content" | tar -t >"$work/content"
  docker rm "$name-content" >/dev/null
  grep -q '^usr/bin/quantd$' "$work/content" || return 1
  grep -q '^usr/share/doc/quantd/sbom.spdx.json$' "$work/content" || return 1
  ! grep -E '\.(cc|cu|cuh|proto|o|a)$|bin/([a-z0-9_-]*-)?(gcc|g\+\+|c\+\+|cc|clang|ld|as|make|ninja|cmake|nvcc)(-[0-9]+)?$' \
    "$work/content"
}
image_settings() {
  docker image inspect quantd-it/cpu >"$work/inspected"
  local want
  for want in '"User": "65532:65532"' '"StopSignal": "SIGTERM"' '"--probe"' \
    "\"org.opencontainers.image.version\": \"$version\"" \
    "\"org.opencontainers.image.revision\": \"$revision\""; do
    grep -qF -- "$want" "$work/inspected" || { echo "no $want"; return 1; }
  done
  local said
  said=$(docker run --rm --network none quantd-it/cpu --version)
  [ "$said" = "quantd $version" ] || { echo "--version: $said"; return 1; }
}
# Starts the server alone, on a read-only file system without a network.
serving_soon() {
  local start now
  start=$(date +%s%N)
  docker run -d --name "$name-alone" --network none --read-only \
    --cap-drop ALL --security-opt no-new-privileges -e QUANTD_INSECURE=true \
    quantd-it/cpu || return 1
  for _ in $(seq 100); do
    docker exec "$name-alone" /usr/bin/quantd --probe && break
    sleep 0.05
  done
  now=$(date +%s%N)
  local took=$(((now - start) / 1000000))
  echo "$took ms from docker run to SERVING" >&4
  docker top "$name-alone" -o uid,pid,comm | tee "$work/top"
  docker stop -t 20 "$name-alone"
  local code
  code=$(docker inspect -f '{{.State.ExitCode}}' "$name-alone")
  docker logs "$name-alone"
  docker rm "$name-alone"
  echo "exit code $code"
  [ $took -lt 2000 ] && [ "$code" = 0 ] && grep -q '^65532 ' "$work/top"
}
# Checks that the server refuses plain text on a network without --insecure.
refuses_plain_text() {
  local said
  said=$(docker run --rm --network none quantd-it/cpu 2>&1) && return 1
  echo "$said"
  grep -q -- --insecure <<<"$said"
}
expect image_size "size without its base below 150 MB" image_size
expect image_content "has an SBOM, and no compiler or sources" image_content
expect image_settings "user, signal, health check and labels" image_settings
expect serving_soon "serves within 2 s: read-only, no capability, user 65532" serving_soon
expect refuses_plain_text "refuses plain text without --insecure" \
  refuses_plain_text

phase "Compose"
compose_is_up=1
compose config >"$work/config.yaml"
compose up -d --no-build quantd-a quantd-b quantd-tls \
  quantd-mtls prometheus >"$work/up.log" 2>&1 ||
  { tail -20 "$work/up.log"; fail "the services do not start"; }
# The tests wait until the services that they depend on are healthy.
compose run --rm -T tests >"$work/tests.log" 2>"$work/tests.err" ||
  tests_failed=1
grep '^check|' "$work/tests.log" >>"$results" ||
  { tail -20 "$work/tests.err"; fail "the tests did not run"; }
grep -v '^check|' "$work/tests.log" || true

phase "Replicas stopped and started under load"
container() { compose ps -q "$1"; }
healthy() {
  local state
  for _ in $(seq 600); do
    state=$(docker inspect -f '{{.State.Health.Status}}' "$(container "$1")")
    [ "$state" = healthy ] && return
    sleep 0.2
  done
  echo "$1 is $state"
  return 1
}
# Every third stop kills the replica. At most one replica is down at a time.
stops_under_load() {
  docker rm -f "$name-load" >/dev/null 2>&1
  compose run -d --no-deps --name "$name-load" tests \
    load "$((60 + stops * 20))" 1000000 || return 1
  sleep 1
  local replica=quantd-a
  for ((i = 1; i <= stops; i++)); do
    if ((i % 3 == 0)); then
      compose kill -s SIGKILL $replica || return 1
    else
      compose stop -t 40 $replica || return 1
    fi
    sleep 0.5
    compose start $replica && healthy $replica || return 1
    [ $replica = quantd-a ] && replica=quantd-b || replica=quantd-a
  done
  docker kill -s TERM "$name-load"
  local code
  code=$(timeout 60 docker wait "$name-load")
  docker logs "$name-load" | tee /dev/fd/4
  docker rm "$name-load"
  [ "$code" = 0 ]
}
expect stops_under_load "no failed call in $stops stops, a third of them kills" stops_under_load

phase "Results"
passed=$(grep -c '^check|passed' "$results" || true)
failed=$(grep -c '^check|FAILED' "$results" || true)
awk -F'|' '{printf "%-7s %-22s %9s  %s\n", $2, $3, $4, $5}' "$results"
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ -z "${tests_failed:-}" ]
