# Builds archives that can be linked into a shared object, before any target
# links them.
if(QUANTD_STATIC)
  set(QUANTD_OTHER_ARCHIVES ${PROJECT_BINARY_DIR}/archives CACHE PATH "")
  set(ENV{CXX} ${CMAKE_CXX_COMPILER})
  message(STATUS "Wheel: compiling protobuf, Abseil and RE2, which takes minutes")
  execute_process(
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/archives.sh ${QUANTD_OTHER_ARCHIVES}
    COMMAND_ERROR_IS_FATAL ANY)
endif()
