# Fails if a room includes a room above it (arrows: tests -> server, client ->
# proto -> kernels -> devices' leaf folders only from kernels/device/backend.cc), if a
# file is named after nothing, if an include starts from "../", or if a slice of
# gRPC's is taken out of a received message but by proto/net/received_message.h,
# which says why. Beside the rest of proto lies proto/net, a leaf that server and
# client share.
#
#   cmake -D ROOT=<repository> -P tests/layering.cmake
cmake_minimum_required(VERSION 3.25)

set(rooms kernels proto server client)
set(problems "")

# Includes of `file` in quotes or brackets, one list.
function(includes_of file out)
  file(STRINGS ${file} lines REGEX "^[ \t]*#[ \t]*include")
  set(found "")
  foreach(line IN LISTS lines)
    if(line MATCHES "[<\"]([^>\"]+)[>\"]")
      list(APPEND found ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# What a file of each room may not include, as regular expressions. The most
# special room that matches a path counts.
set(ban_leaf "^(proto|server|client|tests)/|^(grpc|google/|spdlog)")
set(ban_cpu "${ban_leaf}|^kernels/cuda/")
set(ban_cuda "${ban_leaf}|^kernels/cpu/")
set(ban_kernels "${ban_leaf}|^kernels/(cpu|cuda)/")
set(ban_backend "${ban_leaf}")
set(ban_net "^(kernels|server|client|tests)/|^proto/[^n]|^(google/|spdlog)")
set(ban_proto "^(proto/net/|server|client|tests)/|^kernels/(cpu|cuda|arith)/")
set(ban_server "^(client|tests)/|^kernels/(cpu|cuda|arith)/")
set(ban_client "^(server|tests)/|^kernels/(cpu|cuda|arith|device)/")

set(count 0)
foreach(room IN LISTS rooms)
  file(GLOB_RECURSE files RELATIVE ${ROOT}
    ${ROOT}/${room}/*.h ${ROOT}/${room}/*.cc
    ${ROOT}/${room}/*.cu ${ROOT}/${room}/*.cuh)
  foreach(file IN LISTS files)
    math(EXPR count "${count} + 1")
    if(file MATCHES "^kernels/(cpu|cuda)/")
      set(ban ${ban_${CMAKE_MATCH_1}})
    elseif(file MATCHES "^proto/net/")
      set(ban ${ban_net})
    elseif(file STREQUAL "kernels/device/backend.cc")
      set(ban ${ban_backend})
    else()
      set(ban ${ban_${room}})
    endif()
    file(STRINGS ${ROOT}/${file} taken REGEX
      "\\.Dump(ToSingleSlice)?\\(|TrySingleSlice|ProtoBufferReader")
    if(taken AND NOT file STREQUAL "proto/net/received_message.cc" AND NOT
       file STREQUAL "proto/net/received_message.h")
      list(APPEND problems "${file} takes slices out of a message of gRPC's")
    endif()
    includes_of(${ROOT}/${file} includes)
    foreach(include IN LISTS includes)
      if(include MATCHES "${ban}")
        list(APPEND problems "${file} includes ${include}")
      endif()
    endforeach()
  endforeach()
endforeach()

file(GLOB_RECURSE all RELATIVE ${ROOT}
  ${ROOT}/kernels/* ${ROOT}/proto/* ${ROOT}/server/*
  ${ROOT}/client/*
  ${ROOT}/tests/*)
foreach(file IN LISTS all)
  get_filename_component(stem ${file} NAME_WE)
  if(stem MATCHES "^(common|utils?|helpers?|misc|types)$")
    list(APPEND problems "${file}: a name that says nothing")
  endif()
  if(file MATCHES "\\.(h|cc|cu|cuh)$")
    includes_of(${ROOT}/${file} includes)
    foreach(include IN LISTS includes)
      if(include MATCHES "^\\.\\.?/")
        list(APPEND problems "${file} includes ${include}: start at the root")
      endif()
    endforeach()
  endif()
endforeach()

if(count EQUAL 0)
  list(APPEND problems "no source found under ${ROOT}")
endif()
if(problems)
  list(JOIN problems "\n  " text)
  message(FATAL_ERROR "layering:\n  ${text}")
endif()
message(STATUS "layering: ${count} files in order")
