# Installs BUILD into a prefix of its own, moves that elsewhere, builds ci/examples/foreign against it and runs its tests; then the
# same source by pkg-config alone, where there is one.
set(work ${BUILD}/install-test)
file(REMOVE_RECURSE ${work})
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT rc EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${rc}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/first)
file(RENAME ${work}/first ${work}/prefix) # nothing may hold the path that it was installed to
step(${CMAKE_COMMAND} -S ${SOURCE}/ci/examples/foreign -B ${work}/foreign -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_CXX_COMPILER=${CXX}
  -DCMAKE_BUILD_TYPE=Debug)
step(${CMAKE_COMMAND} --build ${work}/foreign)
step(${work}/foreign/foreign_test)
message(STATUS "${out}")
step(${work}/prefix/bin/parity list)

find_program(pkg_config pkg-config)
if(pkg_config)
  file(GLOB pc ${work}/prefix/lib*/pkgconfig ${work}/prefix/lib/*/pkgconfig)
  step(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc} ${pkg_config} --cflags --libs parity)
  string(STRIP "${out}" flags)
  separate_arguments(flags)
  step(${CXX} -std=c++20 ${SOURCE}/ci/examples/foreign/foreign_test.cpp -o ${work}/by_pkg_config ${flags} -lgtest -lgtest_main -lpthread)
  step(${work}/by_pkg_config)
endif()
