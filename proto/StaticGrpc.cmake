# gRPC, protobuf, Abseil and their friends from the distribution's archives.
# The package's CMake targets name shared objects only, so the archives are
# listed by hand. Included by proto/CMakeLists.txt.
find_library(QUANTD_ZLIB_A NAMES libz.a REQUIRED)
get_filename_component(QUANTD_ARCHIVES ${QUANTD_ZLIB_A} DIRECTORY)

# Who links absl::strings must get the archive too, or the program would hold
# Abseil twice.
foreach(file ${absl_DIR}/abslTargets.cmake)
  file(STRINGS ${file} lines REGEX "^add_library\\(absl::[a-z0-9_]+ SHARED")
  foreach(line ${lines})
    string(REGEX REPLACE "^add_library\\(absl::([a-z0-9_]+) .*" "\\1" name
      "${line}")
    set(archive ${QUANTD_ARCHIVES}/libabsl_${name}.a)
    if(EXISTS ${archive})
      get_target_property(configs absl::${name} IMPORTED_CONFIGURATIONS)
      foreach(config ${configs})
        set_target_properties(absl::${name} PROPERTIES
          IMPORTED_LOCATION_${config} ${archive})
      endforeach()
    endif()
  endforeach()
endforeach()

set(names libgrpc++.a libgrpc.a libgpr.a libaddress_sorting.a libupb.a
  libre2.a libcares.a libprotobuf.a libssl.a libcrypto.a libz.a)
list(TRANSFORM names PREPEND ${QUANTD_ARCHIVES}/)
file(GLOB absl_archives ${QUANTD_ARCHIVES}/libabsl_*.a)
# Not part of any program: they bring main() or test doubles.
list(FILTER absl_archives EXCLUDE REGEX "test_util|scoped_set_env")

# rdynamic symbols of the archives would clash with those of a host program.
target_link_options(quantd_protobuf INTERFACE
  -static-libstdc++ -static-libgcc
  LINKER:--gc-sections LINKER:--exclude-libs,ALL)
target_link_libraries(quantd_protobuf INTERFACE
  ${QUANTD_ARCHIVES}/libprotobuf.a ${QUANTD_ZLIB_A} Threads::Threads)
target_link_libraries(quantd_grpc INTERFACE quantd_protobuf
  -Wl,--start-group ${names} ${absl_archives} -Wl,--end-group
  Threads::Threads ${CMAKE_DL_LIBS} rt m)
# Before the group, which it needs.
target_link_libraries(quantd_grpc_reflection INTERFACE
  ${QUANTD_ARCHIVES}/libgrpc++_reflection.a quantd_grpc)
