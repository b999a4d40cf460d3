# The installed package. find_package(quantd CONFIG) defines quantd::client.
# With COMPONENTS local it also defines quantd::local, the client with the
# kernels. This component needs the CUDA toolkit if quantd was built with CUDA.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(QUANTD_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/quantd)

target_compile_features(quantd_client PUBLIC cxx_std_20)
target_include_directories(quantd_client PUBLIC
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# Keeps a property that only serves to build quantd out of the exported target:
# warnings, sanitizers, or the directory of generated code.
function(quantd_keep_private target property)
  get_target_property(value ${target} ${property})
  if(value)
    set_property(TARGET ${target} PROPERTY ${property}
      "$<BUILD_INTERFACE:${value}>")
  endif()
endfunction()
quantd_keep_private(quantd_flags INTERFACE_COMPILE_OPTIONS)
quantd_keep_private(quantd_flags INTERFACE_LINK_OPTIONS)
quantd_keep_private(quantd_proto INTERFACE_INCLUDE_DIRECTORIES)
quantd_keep_private(quantd_proto INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)

install(TARGETS quantd_client quantd_plan quantd_wire quantd_message quantd_proto
    quantd_protobuf quantd_grpc quantd_net quantd_crypto quantd_flags
  EXPORT quantdTargets COMPONENT sdk)
install(EXPORT quantdTargets NAMESPACE quantd::
  DESTINATION ${QUANTD_PACKAGE_DIR} COMPONENT sdk)
install(TARGETS quantd_local quantd_kernels
  EXPORT quantdLocalTargets COMPONENT sdk)
install(EXPORT quantdLocalTargets NAMESPACE quantd::
  DESTINATION ${QUANTD_PACKAGE_DIR} COMPONENT sdk)
# For clients in other languages: they compile ${quantd_PROTO_DIR}/quantd.proto.
set(QUANTD_PROTO_DIR ${CMAKE_INSTALL_DATADIR}/quantd/proto)
install(FILES ${PROJECT_SOURCE_DIR}/proto/quantd.proto
    ${PROJECT_SOURCE_DIR}/proto/WIRE.md ${PROJECT_SOURCE_DIR}/proto/BYTES.md
    ${PROJECT_SOURCE_DIR}/proto/STREAMS.md ${PROJECT_SOURCE_DIR}/proto/SHARED_MEMORY.md
  DESTINATION ${QUANTD_PROTO_DIR} COMPONENT sdk)
configure_package_config_file(quantdConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/quantdConfig.cmake
  INSTALL_DESTINATION ${QUANTD_PACKAGE_DIR}
  PATH_VARS QUANTD_PROTO_DIR)
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/quantdConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quantdConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/quantdConfigVersion.cmake
  DESTINATION ${QUANTD_PACKAGE_DIR} COMPONENT sdk)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/quantd
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk)
