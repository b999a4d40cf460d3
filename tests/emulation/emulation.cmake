# QUANTD_CUDA=EMULATED compiles CUDA's sources for the host, where the CUDA
# backend runs as device cuda:0 (README.md). It is slow, and only for tests.
# Needs the toolkit's headers, but no GPU.
find_path(QUANTD_CUDA_HEADERS cuda_runtime_api.h
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include REQUIRED)
find_program(QUANTD_TRANSLATOR python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
set(QUANTD_EMULATED_ARCH 900 CACHE STRING "__CUDA_ARCH__ of the emulated device")
set(QUANTD_EMULATED_SHARED_KIB 227 CACHE STRING "KiB of shared memory of an emulated CTA")

set(quantd_emulation ${PROJECT_SOURCE_DIR}/tests/emulation)
add_library(quantd_emulation STATIC ${quantd_emulation}/copies.cc
  ${quantd_emulation}/ptx.cc ${quantd_emulation}/ptx_instructions.cc
  ${quantd_emulation}/ptx_matrices.cc ${quantd_emulation}/runtime.cc
  ${quantd_emulation}/streams.cc
  ${quantd_emulation}/threads.cc)
target_include_directories(quantd_emulation PUBLIC ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/include)
target_include_directories(quantd_emulation SYSTEM PUBLIC ${QUANTD_CUDA_HEADERS})
target_compile_definitions(quantd_emulation PUBLIC
  QUANTD_EMULATED_ARCH=${QUANTD_EMULATED_ARCH}
  QUANTD_EMULATED_SHARED_KIB=${QUANTD_EMULATED_SHARED_KIB})
# Fibers jump between stacks, which the longjmp of _FORTIFY_SOURCE refuses.
target_compile_options(quantd_emulation PRIVATE -O2 -U_FORTIFY_SOURCE)
add_library(CUDA::cudart_static ALIAS quantd_emulation)

# quantd_cuda_objects(<name> <user> <source>...)
# A library of .cu files, whose objects become part of the target <user>.
function(quantd_cuda_objects name user)
  set(translated)
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
      OUTPUT_VARIABLE path)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${path}.cc)
    cmake_path(GET out PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_CXX_COMPILER} -E -std=c++20 -x c++ -MD -MT ${out} -MF ${out}.d
        -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include -isystem ${QUANTD_CUDA_HEADERS}
        -DQUANTD_EMULATED_ARCH=${QUANTD_EMULATED_ARCH}
        -include ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/device.h ${source} -o ${out}.ii
      COMMAND ${QUANTD_TRANSLATOR} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/translate.py
        ${out}.ii ${out}
      DEPENDS ${source} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/translate.py
        ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/device.h
      DEPFILE ${out}.d
      COMMENT "Translating ${path}" VERBATIM)
    list(APPEND translated ${out})
  endforeach()
  add_library(${name} OBJECT ${translated})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  # Forbids the compiler to fuse operations, as the target quantd_arith does.
  target_compile_options(${name} PRIVATE -std=c++20 -fpreprocessed -O1
    -ffp-contract=off -w)
  target_sources(${user} PRIVATE $<TARGET_OBJECTS:${name}>)
  target_link_libraries(${user} PRIVATE $<BUILD_INTERFACE:quantd_emulation>)
endfunction()
