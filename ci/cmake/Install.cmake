# cmake --install BUILD --prefix PREFIX: the command, the library with its public header, and what finds it from CMake and pkg-config.
#   bin/parity   lib/libparity.so (all that links)   lib/libparity_ops.so (ops and cases, which it loads)   include/parity/*   share/parity/examples
include(GNUInstallDirs)

# What registers itself, as a library of its own: libparity.so loads it when a case is asked for.
add_library(parity_ops SHARED $<TARGET_OBJECTS:references> $<TARGET_OBJECTS:cases>)
target_link_libraries(parity_ops PRIVATE hub fmt::fmt Eigen3::Eigen)
set_target_properties(parity_ops PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN")
set_target_properties(parity PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set_target_properties(hub PROPERTIES INSTALL_RPATH "$ORIGIN")

install(TARGETS parity RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hub parity_ops LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES harness/api/parity.hpp harness/plugin/parity_plugin.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/parity)
install(DIRECTORY ci/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/parity/examples)

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/parity)
configure_package_config_file(ci/cmake/parity-config.cmake.in ${CMAKE_BINARY_DIR}/parity-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/parity-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/parity-config.cmake ${CMAKE_BINARY_DIR}/parity-config-version.cmake DESTINATION ${package})
configure_file(ci/cmake/parity.pc.in ${CMAKE_BINARY_DIR}/parity.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/parity.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Somebody else's project, built against an installation and run.
if(GTest_FOUND AND NOT PARITY_SANITIZE)
  add_test(NAME install COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DSOURCE=${CMAKE_SOURCE_DIR}
    -DCXX=${CMAKE_CXX_COMPILER} -P ${CMAKE_SOURCE_DIR}/ci/cmake/InstallTest.cmake)
  set_tests_properties(install PROPERTIES TIMEOUT 600)
endif()
