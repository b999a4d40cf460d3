# Links the distribution's static archives of gRPC, protobuf, Abseil, fmt and
# their dependencies. The distribution's CMake targets name only shared
# libraries, so the archives are listed here. Included by proto/CMakeLists.txt.
find_library(QUANTD_ZLIB_A NAMES libz.a REQUIRED)
get_filename_component(QUANTD_ARCHIVES ${QUANTD_ZLIB_A} DIRECTORY)
set(QUANTD_OTHER_ARCHIVES "" CACHE PATH
  "A folder whose archives replace those of the distribution that have the same names")

# Finds the path of an archive, given its name.
function(quantd_archive variable name)
  set(archive ${QUANTD_ARCHIVES}/${name})
  if(EXISTS "${QUANTD_OTHER_ARCHIVES}/${name}")
    set(archive ${QUANTD_OTHER_ARCHIVES}/${name})
  endif()
  set(${variable} ${archive} PARENT_SCOPE)
endfunction()

# Programs that link absl::strings must also get its archive, not the shared
# library, or they would contain Abseil twice.
file(STRINGS ${absl_DIR}/abslTargets.cmake lines
  REGEX "^add_library\\(absl::[a-z0-9_]+ SHARED")
foreach(line ${lines})
  string(REGEX REPLACE "^add_library\\(absl::([a-z0-9_]+) .*" "\\1" name
    "${line}")
  quantd_archive(archive libabsl_${name}.a)
  if(EXISTS ${archive})
    get_target_property(configs absl::${name} IMPORTED_CONFIGURATIONS)
    foreach(config ${configs})
      set_target_properties(absl::${name} PROPERTIES
        IMPORTED_LOCATION_${config} ${archive})
    endforeach()
  endif()
endforeach()

set(archives)
foreach(name grpc++_reflection grpc++ grpc gpr address_sorting upb re2 cares
    protobuf ssl crypto z)
  quantd_archive(archive lib${name}.a)
  list(APPEND archives ${archive})
endforeach()
set(absl_archives)
file(GLOB names RELATIVE ${QUANTD_ARCHIVES} ${QUANTD_ARCHIVES}/libabsl_*.a)
list(FILTER names EXCLUDE REGEX "test_util|scoped_set_env")
foreach(name ${names})
  quantd_archive(archive ${name})
  list(APPEND absl_archives ${archive})
endforeach()
# A single word, because otherwise CMake would move archives into or out of the
# group.
list(JOIN archives "," archives)
list(JOIN absl_archives "," absl_archives)
set(group "-Wl,--start-group,${archives},${absl_archives},--end-group")

# The options are those of the distribution's targets, because the same objects
# are used for both ways of linking.
target_compile_options(quantd_grpc INTERFACE -pthread)
# Programs must not export the archives' symbols.
target_link_options(quantd_protobuf INTERFACE
  -static-libstdc++ -static-libgcc
  LINKER:--gc-sections LINKER:--exclude-libs,ALL)
quantd_archive(archive libprotobuf.a)
target_link_libraries(quantd_protobuf INTERFACE
  ${archive} ${QUANTD_ZLIB_A} Threads::Threads)
target_link_libraries(quantd_grpc INTERFACE quantd_protobuf
  ${group} Threads::Threads ${CMAKE_DL_LIBS} rt m)
# libcrypto is in the group, whose archives need it. Targets that call it link
# quantd_crypto.
target_link_libraries(quantd_crypto INTERFACE quantd_grpc)
target_link_libraries(quantd_grpc_reflection INTERFACE quantd_grpc)

# fmt has no archive. This target has the options of fmt::fmt, because the same
# objects are used for both ways of linking.
add_library(quantd_fmt STATIC static_fmt.cc)
target_compile_definitions(quantd_fmt INTERFACE FMT_SHARED)
target_link_libraries(quantd_fmt PRIVATE quantd_flags)
