# shellcheck shell=bash
# shellcheck disable=SC2154  # cache, name and work are the caller's
# A Docker engine for one run, for machines without one. It consists of Debian
# packages that are unpacked in a cache folder and not installed, and of a base
# image made from the distribution. Containers run only in a network namespace
# made for them. deploy/integration.sh sources this file, after setting
# `cache`, `name` (unique to the run) and `work` (a folder of the run), and
# provides `fail`.
#
#   engine_prepare    downloads and unpacks what is missing in the cache
#   engine_start      starts the engine for builds, which use the host's network
#   engine_add_cuda   makes a base image with this machine's CUDA toolkit
#   engine_enclose    restarts the engine in the namespace $name, for containers
#   engine_stop       stops the engine by its pid and removes the namespace
#
# Afterwards docker and compose are in PATH, and DOCKER_HOST names the engine's
# socket. Only one run at a time can use the cache. The next one waits.
engine_packages="docker.io docker-compose tini iproute2 debootstrap"
engine_data_limit_mib=20000

engine_prepare() {
  [ "$(id -u)" = 0 ] || fail "no Docker engine is running, and starting one needs root"
  command -v apt-get dpkg-deb >/dev/null ||
    fail "no Docker engine is running, and this script can only start one on Debian or Ubuntu"
  mkdir -p "$cache/debs/partial"
  exec {engine_lock}>"$cache/lock"
  flock -w 1800 "$engine_lock" || fail "another run has held $cache for half an hour"

  if [ ! -e "$cache/unpacked" ]; then
    rm -rf "${cache:?}"/root "${cache:?}"/bin
    # shellcheck disable=SC2086  # one word a package
    { apt-get update -q &&
      apt-get install --download-only -y -q --no-install-recommends \
        -o Dir::Cache::archives="$cache/debs" -o Debug::NoLocking=true \
        $engine_packages; } >"$work/download.log" 2>&1 ||
      fail "cannot download $engine_packages: $(tail -1 "$work/download.log")"
    for package in "$cache"/debs/*.deb; do
      dpkg-deb -x "$package" "$cache/root"
    done
    # Links that the installation would make. The programs find files relative
    # to them.
    mkdir -p "$cache/bin"
    ln -s ../root/usr/sbin/iptables-legacy "$cache/bin/iptables"
    ln -s ../root/usr/sbin/ip6tables-legacy "$cache/bin/ip6tables"
    touch "$cache/unpacked"
  fi
  local root=$cache/root
  export PATH=$cache/bin:$root/usr/bin:$root/usr/sbin:$root/sbin:$PATH
  export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
  export XTABLES_LIBDIR=$root/usr/lib/x86_64-linux-gnu/xtables
  export PYTHONPATH=$root/usr/lib/python3/dist-packages
  export DEBOOTSTRAP_DIR=/usr/share/debootstrap
  [ -e "$DEBOOTSTRAP_DIR/functions" ] || DEBOOTSTRAP_DIR=$root$DEBOOTSTRAP_DIR

  [ -e "$cache/base.tar" ] || engine_make_base
  ip netns add "$name" 2>"$work/netns.log" ||
    fail "this machine refuses network namespaces ($(cat "$work/netns.log")), and containers are only run in one"
  engine_namespace=$name
  ip -n "$name" link set lo up
}

engine_make_base() {
  local rootfs=$work/rootfs
  echo "making a base image"
  deploy/debian-root.sh "$rootfs" >"$work/debootstrap.log" 2>&1 ||
    fail "debootstrap: $(tail -3 "$work/debootstrap.log")"
  tar -C "$rootfs" -cf "$cache/base.tar.new" .
  mv "$cache/base.tar.new" "$cache/base.tar"
  rm -rf "$rootfs"
}

# engine_run WRAPPER...: runs dockerd under a command that isolates it.
engine_run() {
  export DOCKER_HOST=unix://$work/docker.sock
  "$@" dockerd --data-root "$cache/data" --exec-root "$work/exec" \
    --pidfile "$work/docker.pid" --host "$DOCKER_HOST" --bridge=none \
    --iptables=false --ip6tables=false --ip-forward=false \
    >>"$work/engine.log" 2>&1 {engine_lock}>&- &
  engine_pid=$!
  for _ in $(seq 300); do
    docker version >/dev/null 2>&1 && return
    kill -0 "$engine_pid" 2>/dev/null || break
    sleep 0.1
  done
  fail "the engine did not start: $(tail -3 "$work/engine.log")"
}

engine_start() {
  if [ -d "$cache/data" ] &&
    [ "$(du -sm "$cache/data" | cut -f1)" -gt "$engine_data_limit_mib" ]; then
    rm -rf "$cache/data"
  fi
  # Removes what an interrupted run left: its bridges must not be created
  # outside a namespace.
  rm -rf "$cache/data/network" "$cache/data/containers" "$cache/data/volumes"
  engine_run unshare --mount --propagation private
  docker image inspect quantd-it/base >/dev/null 2>&1 ||
    docker import "$cache/base.tar" quantd-it/base >/dev/null
  # A build compiles the same files with the same compiler as this machine, so
  # it starts with a copy of this machine's compiler cache, if there is one.
  local ccache=${CCACHE_DIR:-$HOME/.cache/ccache}
  if [ -d "$ccache" ] && [ "$(du -sm "$ccache" | cut -f1)" -lt 6000 ]; then
    docker builder prune --force --filter type=exec.cachemount >/dev/null
    docker image rm quantd-it/ccache >/dev/null 2>&1 || true
    # tar exits with 1 if a file changed, because a compiler may be running.
    { tar -C "$ccache" -c . 2>/dev/null || [ $? = 1 ]; } |
      docker import - quantd-it/ccache >/dev/null
  fi
  build_arguments+=(--network host --build-arg BUILD_BASE=quantd-it/base
    --build-arg RUNTIME_BASE=quantd-it/base)
  if docker image inspect quantd-it/ccache >/dev/null 2>&1; then
    build_arguments+=(--build-arg CCACHE_SEED=quantd-it/ccache)
  fi
}

# Makes a base image for builds with CUDA from this machine's toolkit, without
# the large libraries, which quantd does not use.
engine_add_cuda() {
  local nvcc toolkit
  nvcc=$(command -v nvcc) || fail "--cuda needs nvcc on this machine, or a Docker engine that can pull NVIDIA's images"
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  mkdir "$work/cuda"
  find "$toolkit" -name '*.so*' -size +10M ! -path '*/nvvm/*' -prune -o -print0 |
    tar -c --null --no-recursion -T - -f "$work/cuda/toolkit.tar" \
      2>"$work/toolkit.log"
  printf 'FROM quantd-it/base\nADD toolkit.tar /\nENV PATH=%s/bin:$PATH\n' \
    "$toolkit" >"$work/cuda/Dockerfile"
  docker build -q -t quantd-it/cuda-base "$work/cuda" >/dev/null
  rm -r "$work/cuda"
  build_arguments+=(--build-arg CUDA_BUILD_BASE=quantd-it/cuda-base
    --build-arg CUDA_RUNTIME_BASE=quantd-it/base)
}

engine_enclose() {
  engine_halt
  engine_run nsenter --net="/run/netns/$name" \
    unshare --mount --propagation private
}

engine_halt() {
  [ -n "${engine_pid:-}" ] || return 0
  kill "$engine_pid" 2>/dev/null || true
  wait "$engine_pid" 2>/dev/null || true
  engine_pid=
}

engine_stop() {
  engine_halt
  [ -n "${engine_namespace:-}" ] || return 0
  # Ends processes that an engine left in the namespace. No others can be there.
  local left
  left=$(ip netns pids "$engine_namespace")
  # shellcheck disable=SC2086  # one word a process
  [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
  ip netns delete "$engine_namespace"
  engine_namespace=
}
