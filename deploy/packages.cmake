# Debian packages: run `cpack -G DEB` in a build folder in which all targets but
# the tests have been built. The package quantd is the server with its unit,
# quantctl the tool with its manual, and libquantd-dev the SDK: archives,
# headers and quantd.proto.
include(GNUInstallDirs)
# Packaging must not build anything, since that would include the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

# systemd reads this folder, even if libraries are in a different one.
install(FILES ${CMAKE_CURRENT_LIST_DIR}/systemd/quantd.service
    ${CMAKE_CURRENT_LIST_DIR}/systemd/quantd-edge.service
  DESTINATION lib/systemd/system COMPONENT server)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/systemd/sysusers.conf
  DESTINATION lib/sysusers.d RENAME quantd.conf COMPONENT server)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/edge/haproxy.cfg
  DESTINATION ${CMAKE_INSTALL_DATADIR}/quantd/edge COMPONENT server)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/systemd/cuda.conf
    ${CMAKE_CURRENT_LIST_DIR}/systemd/edge.conf
    ${CMAKE_CURRENT_LIST_DIR}/README.md ${CMAKE_CURRENT_LIST_DIR}/RUNNING.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/quantd COMPONENT server)
foreach(pair "server quantd" "tools quantctl" "sdk libquantd-dev")
  separate_arguments(pair)
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright
    COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR quantd)
set(CPACK_PACKAGE_CONTACT "the maintainers of quantd <root@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "quantization of tensors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL server tools manual sdk)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Adds dependencies on the linked libraries in their required versions.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME quantd)
set(CPACK_DEBIAN_SERVER_DESCRIPTION
  "server that quantizes tensors for gRPC clients, on GPUs or the CPU")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/systemd/postinst
  ${CMAKE_CURRENT_LIST_DIR}/systemd/prerm
  ${CMAKE_CURRENT_LIST_DIR}/systemd/postrm)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_SERVER_PACKAGE_SUGGESTS "haproxy")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME quantctl)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION
  "quantizes tensors and whole models from a shell, with quantd or without it")
set(CPACK_DEBIAN_SDK_PACKAGE_NAME libquantd-dev)
set(CPACK_DEBIAN_SDK_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_SDK_DESCRIPTION
  "C++ client of quantd: archives, headers and an example")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/example/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libquantd-dev/examples COMPONENT sdk)
install(FILES ${PROJECT_SOURCE_DIR}/kernels/plan/FORMATS.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libquantd-dev COMPONENT sdk)
# The packages that find_package(quantd) needs. CMake finds Debian's gRPC only
# if protoc's plug-ins are installed, too.
set(CPACK_DEBIAN_SDK_PACKAGE_DEPENDS
  "libabsl-dev, libfmt-dev, libgrpc++-dev, libprotobuf-dev, libssl-dev, protobuf-compiler-grpc")
include(CPack)
cpack_add_component(server GROUP server)
cpack_add_component(tools GROUP tools)
cpack_add_component(manual GROUP tools)
cpack_add_component(sdk GROUP sdk)
