#!/usr/bin/env python3
"""Checks the layers of the sources: one line for each folder says what it may
include, and everything else is forbidden.

    tests/layering.py [ROOT]

It also fails when headers and sources include each other in a circle, when a
folder has no line or too many files, when a line allows what no file needs,
when a file has a name that says nothing or an include guard that does not match
its path, and when a file outside tests/ takes slices out of a gRPC message. Only
proto/net/received_message may do that, and says why.
"""

import collections
import os
import pathlib
import re
import sys

# A folder: what its files may include besides each other. In that list, a
# folder stands for the headers directly in it, a path for that header, and any
# other word for a library. `messages` and `stubs` are what protoc generates
# from quantd.proto, `vocabulary` is VOCABULARY below. A line that begins with a
# file's path, without its ending, is about that file and its header alone.
ALLOWED = """
include/quantd: absl
kernels/plan: vocabulary kernels/plan/profile kernels/arith/codec.h kernels/arith/copy_address.h absl fmt
kernels/plan/profile: vocabulary kernels/plan absl fmt
kernels/arith: quantd/format.h quantd/nvfp4_options.h kernels/plan/profile/numerics.h kernels/plan/error_sums.h kernels/arith/profile
kernels/arith/profile: quantd/format.h kernels/plan/profile/numerics.h kernels/arith
kernels/device: vocabulary kernels/plan kernels/plan/profile kernels/arith absl fmt
kernels/device/health: vocabulary kernels/device absl fmt
kernels/device/engine: kernels/device/health/device_health.h
kernels/device/devices: kernels/device/health/fault_backend.h kernels/cpu/cpu_backend.h kernels/cuda/cuda_backend.h kernels/cuda/device_mapping.h
kernels/cpu: vocabulary kernels/plan kernels/arith kernels/device absl fmt
kernels/cpu/isa: quantd/format.h kernels/arith kernels/arith/profile kernels/cpu/tiles.h
kernels/cuda: vocabulary kernels/plan kernels/plan/profile kernels/arith kernels/device absl fmt cuda
kernels/cuda/cuda_backend: kernels/cuda/job
kernels/cuda/job: kernels/cuda kernels/device vocabulary kernels/plan absl cuda
kernels/cuda/groups: kernels/cuda/tile kernels/cuda/ptx
kernels/cuda/rotate: kernels/cuda/tile kernels/cuda/ptx
kernels/cuda/ptx: quantd/format.h kernels/arith/codec.h kernels/cuda/queue.h cuda
kernels/cuda/tile: quantd/format.h kernels/arith kernels/cuda/args.h kernels/cuda/queue.h kernels/cuda/ptx cuda
kernels/cuda/amax: kernels/cuda/launch.h kernels/cuda/ptx kernels/cuda/tile
kernels/cuda/amax/write: kernels/cuda/encode/nvfp4
kernels/cuda/decode: kernels/arith kernels/arith/profile kernels/cuda/launch.h kernels/cuda/ptx kernels/cuda/tile cuda
kernels/cuda/encode/generic: kernels/arith kernels/cuda/launch.h kernels/cuda/tile
kernels/cuda/errors: kernels/arith kernels/plan/error_sums.h kernels/cuda/decode kernels/cuda/encode/generic kernels/cuda/launch.h kernels/cuda/ptx kernels/cuda/tile
kernels/cuda/encode/frame: kernels/arith kernels/cuda/tile kernels/cuda/encode/frame/codes kernels/cuda/encode/frame/rotated kernels/cuda/encode/generic kernels/cuda/encode/nvfp4 kernels/cuda/launch.h kernels/cuda/ptx
kernels/cuda/encode/frame/codes: kernels/cuda/encode/frame/cell.cuh kernels/cuda/encode/nvfp4 kernels/cuda/tile
kernels/cuda/encode/frame/rotated: kernels/cuda/encode/frame/in_place.cuh kernels/cuda/encode/frame/values.cuh
kernels/cuda/encode/fp8: kernels/cuda/launch.h kernels/cuda/ptx kernels/cuda/tile
kernels/cuda/encode/nvfp4: kernels/arith kernels/arith/profile kernels/cuda/args.h kernels/cuda/launch.h kernels/cuda/ptx kernels/cuda/tile
kernels/cuda/encode/nvfp4/squares: kernels/arith kernels/cuda/encode/nvfp4 kernels/cuda/launch.h
proto: vocabulary kernels/plan kernels/device/backend.h quantd/server_info.h proto/memory proto/stream absl fmt google messages
proto/memory: vocabulary kernels/plan absl fmt messages
proto/stream: vocabulary proto absl fmt
proto/net: absl fmt grpcpp openssl CLI
server: grpc kernels/device kernels/device/health proto/net server/calls server/config server/gate server/net server/observe absl fmt grpcpp
server/calls: vocabulary kernels/plan kernels/device kernels/device/health proto proto/net proto/stream server/config server/device server/gate server/memory server/net server/observe absl fmt google grpc grpcpp messages
server/config: kernels/device proto proto/net server/gate/steady_time.h server/observe/log.h absl fmt CLI
server/device: kernels/device kernels/device/health server/gate server/observe/health.h server/observe/log.h absl
server/gate: proto absl
server/memory: vocabulary proto proto/memory server/net/listen_socket.h server/gate/steady_time.h absl fmt kernels/device/device_memory.h kernels/device/devices.h
server/net: proto/net server/calls/failure.h server/config/options.h server/gate server/observe/log.h absl fmt grpc grpcpp openssl
server/observe: kernels/device proto proto/net server/calls server/config server/gate server/net absl fmt google grpc grpcpp messages spdlog
client: include/quantd kernels/plan client/net client/route client/call client/tensors fmt kernels/plan/profile
client/allocator: proto/net/allocator.h
client/client: proto proto/net/trace_context.h messages
client/bands: vocabulary kernels/plan quantd/call_options.h quantd/result.h client/call client/tensors absl fmt
client/memory: vocabulary proto/memory quantd/call_options.h quantd/buffers.h absl fmt
client/call: vocabulary kernels/plan proto/methods.h quantd/call_options.h quantd/error.h quantd/buffers.h client/memory quantd/result.h absl fmt
client/route: vocabulary kernels/plan proto proto/memory client/bands client/call quantd/call_options.h client/memory/lending.h quantd/result.h client/tensors/result_builder.h absl fmt messages
client/tensors: vocabulary kernels/plan kernels/plan/profile quantd/call_options.h quantd/distributed.h quantd/buffers.h quantd/piece_options.h quantd/result.h absl fmt
client/tensors/piece_work: quantd/client.h
client/files: vocabulary quantd/buffers.h quantd/quantized_tensor.h absl fmt nlohmann
client/files/quantized_description: proto google
client/checkpoint/anatomy: client/checkpoint client/files absl fmt
client/checkpoint: vocabulary kernels/plan kernels/plan/profile kernels/arith/copy_address.h client/checkpoint/anatomy client/files absl fmt nlohmann re2
client/checkpoint/advise: client/checkpoint client/checkpoint/convert client/files absl fmt
client/checkpoint/check: vocabulary kernels/plan kernels/arith/copy_address.h client/checkpoint client/checkpoint/anatomy client/checkpoint/convert client/files absl fmt
client/checkpoint/convert: vocabulary kernels/plan kernels/plan/profile quantd/buffers.h quantd/result.h client/checkpoint client/checkpoint/anatomy client/files client/tensors/on_threads.h absl fmt
client/checkpoint/lint: client/checkpoint client/checkpoint/anatomy client/checkpoint/check client/checkpoint/convert/config_writer.h client/checkpoint/convert/module_names.h client/files absl fmt
client/checkpoint/lint/engines: client/checkpoint/anatomy client/checkpoint client/checkpoint/lint/rules.h fmt
client/checkpoint/repair: kernels/arith/copy_address.h kernels/plan client/checkpoint client/checkpoint/check client/checkpoint/convert client/checkpoint/lint absl fmt
client/checkpoint/report: kernels/plan kernels/arith/copy_address.h client/checkpoint client/checkpoint/check client/checkpoint/lint client/files absl fmt
client/local: quantd/local.h vocabulary kernels/device proto quantd/call_options.h quantd/piece_options.h quantd/result.h client/call client/tensors absl fmt
client/net: vocabulary kernels/plan proto proto/memory proto/net client/net/stream quantd/call_options.h quantd/credentials.h quantd/error.h quantd/result.h client/memory client/call client/tensors absl fmt google grpcpp messages
client/net/stream: vocabulary proto/net proto/stream quantd/call_options.h quantd/result.h client/net client/call client/tensors absl grpcpp
client/quantctl: client/quantctl/terminal kernels/plan kernels/cpu/choice.h kernels/cuda/choice.h kernels/device/recipe.h proto/net/strict_numbers.h include/quantd client/checkpoint/dialect.h client/checkpoint/weight_values.h client/files client/tensors/piece_work.h absl fmt nlohmann CLI kernels/plan/profile
client/quantctl/main: client/quantctl/terminal client/quantctl/models client/quantctl/bench
client/quantctl/terminal: CLI fmt
client/quantctl/bench: quantd/local.h client/quantctl absl fmt nlohmann CLI
client/quantctl/models: quantd/local.h kernels/plan/profile client/checkpoint client/checkpoint/advise client/checkpoint/check client/checkpoint/convert client/checkpoint/lint client/checkpoint/repair client/checkpoint/report client/files client/tensors/piece_work.h client/quantctl client/quantctl/terminal absl fmt nlohmann CLI
client/example: include/quantd
client/python/native: kernels/device/backend.h proto include/quantd client/memory/cuda_driver.h absl fmt messages nanobind
tests/oracle:
tests/testing: cuda vocabulary kernels/plan kernels/device tests/oracle absl fmt nlohmann gtest gmock
tests/kernels/plan: vocabulary kernels/plan kernels/plan/profile tests/kernels/device/plan_rows.h tests/oracle tests/testing fmt gtest gmock
tests/kernels/arith: quantd/format.h kernels/plan/profile kernels/arith kernels/arith/profile kernels/cpu/isa/transpose.h kernels/device/devices.h tests/oracle tests/testing gtest
tests/kernels/device: vocabulary kernels/plan kernels/device kernels/cpu/choice.h kernels/cuda/choice.h tests/client/temp_dir.h tests/testing absl fmt gtest gmock
tests/kernels/device/health: vocabulary kernels/device kernels/device/health fmt absl gtest
tests/kernels/cpu: kernels/device tests/testing fmt gtest
tests/kernels/contract: vocabulary kernels/plan kernels/plan/profile kernels/device tests/kernels/device/plan_rows.h tests/oracle tests/testing fmt gtest gmock
tests/kernels/gpu: vocabulary kernels/arith kernels/cuda/ptx kernels/plan kernels/plan/profile kernels/device tests/kernels/device/plan_rows.h tests/testing cuda fmt nlohmann gtest
tests/kernels/golden: kernels/plan/profile kernels/device tests/oracle tests/kernels/contract/copy_codes.h tests/testing gtest gmock
tests/proto: vocabulary proto proto/net proto/stream tests/kernels/device/plan_rows.h tests/testing google grpcpp stubs gtest gmock
tests/proto/memory: proto/memory gtest
tests/server: kernels/device kernels/device/health proto/limits.h proto/net server server/calls server/config server/device server/gate server/net tests/attack/http2_peer.h tests/server/memory/door_peer.h tests/bench/rpc_process.h tests/client/temp_dir.h tests/kernels/device/fake_backend.h tests/testing absl fmt google grpcpp messages stubs nlohmann gtest gmock
tests/server/gate: server/gate absl gtest
tests/server/net: server/net tests/server/test_peer.h tests/testing/loopback.h absl grpcpp gtest
tests/server/config: server/config tests/bench/rpc_process.h tests/client/temp_dir.h tests/server tests/testing fmt gtest gmock
tests/server/observe: kernels/plan server/observe tests/server tests/testing absl fmt stubs nlohmann gtest gmock
tests/server/memory: kernels/device/health/self_test.h proto/memory server/config/options.h server/memory tests/client/temp_dir.h tests/emulation/runtime.h tests/emulation/streams.h tests/server tests/testing absl cuda gtest
tests/client: kernels/device proto include/quantd client/files tests/bench/rpc_process.h tests/kernels/device/plan_rows.h tests/testing fmt google grpcpp messages stubs
tests/client/bands: quantd/client.h client/bands client/tensors client/local/local_devices.h client/net/remote.h client/call tests/bench/rpc_process.h tests/client tests/kernels/device/plan_rows.h tests/testing fmt
tests/client/files: kernels/plan proto include/quantd client/files tests/client tests/testing fmt google nlohmann kernels/plan/profile
tests/client/checkpoint: client/checkpoint client/checkpoint/advise client/checkpoint/check client/checkpoint/convert client/checkpoint/lint client/checkpoint/report client/files tests/oracle tests/client tests/testing fmt nlohmann
tests/client/checkpoint/anatomy: client/checkpoint client/checkpoint/anatomy client/checkpoint/convert tests/client/checkpoint
tests/client/route: client/route tests/testing
tests/client/shards: kernels/plan include/quantd tests/bench/rpc_process.h tests/client
tests/client/local: kernels/device include/quantd client/local tests/bench/rpc_process.h tests/client/two_ways.h tests/kernels/device/fake_backend.h tests/testing
tests/client/memory: include/quantd client/memory kernels/device proto/memory tests/bench/rpc_process.h tests/client/temp_dir.h tests/client/two_ways.h tests/kernels/device/plan_rows.h tests/testing absl cuda gtest
tests/client/net: proto/net include/quantd client/net client/call/error_details.h tests/bench/rpc_process.h tests/client tests/kernels/device/plan_rows.h tests/testing absl fmt messages
tests/client/checkpoint/convert: client/checkpoint client/checkpoint/convert tests/client/checkpoint tests/testing
tests/client/checkpoint/lint: client/checkpoint client/checkpoint/check client/checkpoint/lint tests/client/checkpoint
tests/client/checkpoint/repair: client/checkpoint client/checkpoint/check client/checkpoint/lint client/checkpoint/repair tests/client/checkpoint
tests/client/quantctl: kernels/plan include/quantd client/files client/quantctl client/quantctl/terminal tests/bench/rpc_process.h tests/client tests/testing fmt nlohmann client/checkpoint tests/client/checkpoint gtest gmock
tests/client/quantctl/models: client/checkpoint/report client/quantctl/models/engines.h tests/client/quantctl
tests/client/quantctl/bench: client/quantctl/bench tests/client/quantctl
tests/fuzz: kernels/device proto proto/stream tests/fuzz/targets include/quantd absl
tests/fuzz/targets: proto proto/memory proto/net proto/stream include/quantd client/net client/files client/checkpoint client/checkpoint/check client/checkpoint/lint server/config server/memory server/net server/observe tests/fuzz tests/testing/loopback.h absl fmt google nlohmann
tests/soak: include/quantd client/net/address.h client/net/channel.h client/net/channel_credentials.h absl grpcpp messages CLI
tests/attack/edge: tests/bench/rpc_process.h tests/testing/loopback.h
tests/attack: include/quantd tests/attack/edge tests/bench/rpc_process.h tests/client/temp_dir.h absl messages nlohmann openssl CLI gtest
tests/bench: include/quantd tests/client/temp_dir.h kernels/plan kernels/plan/profile kernels/device kernels/cpu/thread_pool.h kernels/cuda kernels/arith/codec.h proto/net/allocator.h grpcpp messages nlohmann cuda CLI
tests/emulation: cuda
tests/bench/gpu_bench: tests/bench/matrix
tests/bench/cpu_bench: tests/bench/matrix
tests/bench/matrix: kernels/plan kernels/plan/profile kernels/device kernels/cpu/thread_pool.h kernels/arith/codec.h tests/bench tests/kernels/device/plan_rows.h fmt nlohmann gtest
tests/bench/rpc_bench: tests/bench/echo
tests/bench/echo: proto/net/allocator.h grpcpp stubs
tests/bench/stream: include/quantd proto/net/allocator.h tests/bench tests/oracle nlohmann CLI
tests/bench/overload: include/quantd tests/bench/quantile.h tests/bench/rpc_process.h nlohmann CLI
tests/deploy/load: include/quantd
"""

# A header and its source are one unit. A folder with more units than this is
# hard to take in at a glance.
MOST_UNITS = 15
# Folders that may have more.
LARGE = ("server/calls", "server/gate", "tests/server", "include/quantd")

# Public headers, included as "quantd/NAME.h". VOCABULARY are those that all
# folders may include; they include only one another.
PUBLIC = "include/quantd"
VOCABULARY = ("delayed_scaling", "error_statistics", "field_error", "format",
              "nvfp4_options", "options", "plan", "sign_mask")

ROOMS = ("include", "kernels", "proto", "server", "client", "tests")
# Folders of system headers; all other folders in an include are libraries.
SYSTEM = ("arpa", "linux", "netinet", "sys")
GENERATED = {"quantd.pb.h": "messages", "quantd.grpc.pb.h": "stubs"}
SOURCE = re.compile(r"\.(h|cc|cu|cuh)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
SLICES = re.compile(
    r"\.Dump(ToSingleSlice)?\(|TrySingleSlice|ProtoBufferReader")
NAMELESS = re.compile(r"(common|utils?|helpers?|misc|types)$")


def read_tree(root):
    """Every file below root: its text, or "" if it is no source."""
    tree = {}
    for top in sorted(os.listdir(root)):
        if top.startswith((".", "build")):
            continue
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(set(folders) - {"build", "__pycache__"})
            for name in names:
                file = os.path.join(folder, name)
                path = os.path.relpath(file, root)
                tree[path] = ""
                if SOURCE.search(path):
                    tree[path] = pathlib.Path(file).read_text("utf-8")
    return tree


def lines_of(text=ALLOWED):
    """Each line of ALLOWED: what it is about, and what it allows."""
    lines = {}
    for line in text.strip().splitlines():
        key, _, allowed = line.partition(":")
        lines[key] = allowed.split()
    return lines


def unit(path):
    """A header and its source: their path without the ending."""
    return SOURCE.sub("", path)


def is_vocabulary(path):
    folder, name = os.path.split(unit(path))
    return folder == PUBLIC and name in VOCABULARY


def words_for(quote, include, tree):
    """The words in ALLOWED that allow an include; () for a system header.

    None where there is no such header.
    """
    if include in tree:
        return (os.path.dirname(include), include)
    if "include/" + include in tree:
        known = is_vocabulary("include/" + include)
        return (PUBLIC, include, *(["vocabulary"] if known else []))
    if include in GENERATED:
        return (GENERATED[include],)
    top = include.split("/")[0]
    if include.startswith("cuda"):
        return ("cuda",)
    if top != include and top not in ROOMS + SYSTEM + (".", ".."):
        return (top,)
    return () if quote == "<" else None


def find_circle(edges):
    """Units that include each other in a circle, or none."""
    done = set()
    for start in sorted(edges):
        path = [(start, iter(sorted(edges[start])))]
        while path:
            step = next(path[-1][1], None)
            names = [name for name, _ in path]
            if step is None:
                done.add(path.pop()[0])
            elif step in names:
                return names[names.index(step):] + [step]
            elif step not in done:
                path.append((step, iter(sorted(edges[step]))))
    return []


def faults_of_file(path, text):
    """What is wrong with a source, apart from its includes."""
    name = path.removeprefix(PUBLIC + "/")
    guard = "QUANTD_" + re.sub(r"[/.]", "_", name).upper() + "_"
    if path.split("/")[0] not in ROOMS:
        yield f"{path}: is below none of {', '.join(ROOMS)}"
    if path.endswith("h") and f"#ifndef {guard}\n#define {guard}\n" not in text:
        yield f"{path}: its include guard is not {guard}"
    if (SLICES.search(text) and not path.startswith("tests/")
            and unit(path) != "proto/net/received_message"):
        yield f"{path} takes slices out of a gRPC message"


def faults_of(tree, lines):
    """What is wrong with a tree, one line for each fault."""
    faults = []
    units = collections.defaultdict(set)
    edges = collections.defaultdict(set)
    used = set()
    for path, text in tree.items():
        folder, name = os.path.split(path)
        if NAMELESS.match(os.path.splitext(name)[0]):
            faults.append(f"{path}: a name that says nothing")
        if not SOURCE.search(path):
            continue
        units[folder].add(unit(path))
        faults += faults_of_file(path, text)
        for quote, include in INCLUDE.findall(text):
            words = words_for(quote, include, tree)
            if words is None:
                faults.append(f"{path} includes {include}, which is not there: "
                              "includes start at the root")
                continue
            file = include if include in tree else "include/" + include
            if file in tree and unit(file) != unit(path):
                edges[unit(path)].add(unit(file))
            if not words or words[0] == folder and (
                    is_vocabulary(file) or not is_vocabulary(path)):
                continue
            allowed = {(key, word) for key in (folder, unit(path))
                       for word in words if word in lines.get(key, ())}
            used |= allowed
            if not allowed:
                faults.append(f"{path} includes {include}: not allowed")
    for folder, names in sorted(units.items()):
        if folder not in lines:
            faults.append(f"{folder}: no line says what it may include")
        if len(names) > MOST_UNITS and folder not in LARGE:
            faults.append(f"{folder}: {len(names)} units, over {MOST_UNITS}")
    faults += [f"{key}: no file there needs {word}"
               for key, words in lines.items() for word in words
               if (key, word) not in used]
    circle = find_circle(edges)
    if circle:
        faults.append("a circle: " + " -> ".join(circle))
    if not units:
        faults.append("no source found")
    return faults


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(here)
    tree = read_tree(root)
    faults = faults_of(tree, lines_of())
    for fault in faults:
        print(f"layering: {fault}", file=sys.stderr)
    if faults:
        sys.exit(1)
    print(f"layering: {sum(map(bool, tree.values()))} files in order")


if __name__ == "__main__":
    main()
