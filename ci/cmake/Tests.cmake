# Unit tests (two shards, run side by side), the edge check, and a generated file per header that proves it self-contained.
# Tests run in the root of the sources; each shard leaves its results in <build>/test-results/ for ci/test to count.

set(results ${CMAKE_BINARY_DIR}/test-results)

# The paths are the only thing in a test that differs between checkouts; kept out of the flags, so that ccache shares the rest.
set(test_paths ${CMAKE_BINARY_DIR}/test_paths.cpp)
set(cuobjdump "")
if(PARITY_CUOBJDUMP)
  set(cuobjdump ${PARITY_CUOBJDUMP})
endif()
file(CONFIGURE OUTPUT ${test_paths} CONTENT [[
#include "harness/test_paths.hpp"
namespace parity::test {
const char* const kSourceDir = "@CMAKE_SOURCE_DIR@";
const char* const kBinaryDir = "@CMAKE_BINARY_DIR@";
const char* const kCuobjdump = "@cuobjdump@";
}  // namespace parity::test
]] @ONLY)

# parity_add_tests(NAME SHARDS): CTest entries of one gtest executable.
function(parity_add_tests name shards)
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard}
      COMMAND ${name} --gtest_brief=1 --gtest_output=xml:${results}/${name}.${shard}.xml
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name}.${shard} PROPERTIES
      TIMEOUT 1500
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard};TSAN_OPTIONS=halt_on_error=1;UBSAN_OPTIONS=print_stacktrace=1")
  endforeach()
endfunction()

if(GTest_FOUND AND test_cpp)
  parity_cuda_objects(tests_cuda tests_cuda_objects ${test_cu})
  add_executable(parity_tests ${test_cpp} ${test_paths} ${kernels_cuda_objects} ${tests_cuda_objects})
  target_link_libraries(parity_tests PRIVATE
    parity_flags ${spokes} hub ${spoke_libraries} CLI11::CLI11 benchmark::benchmark GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(parity_tests PROPERTIES LINKER_LANGUAGE CXX ENABLE_EXPORTS ON)
  if(TARGET parity)
    add_dependencies(parity_tests parity) # tests of the command line run it
  endif()
  parity_add_tests(parity_tests 2)
endif()

if(GTest_FOUND AND PARITY_HAS_TORCH AND torch_test_cpp)
  add_executable(parity_torch_tests ${torch_test_cpp} ${test_paths} ${kernels_cuda_objects})
  set(torch_part "")
  if(TARGET parity_torch)
    set(torch_part parity_torch)
  endif()
  target_link_libraries(parity_torch_tests PRIVATE
    parity_flags ${spokes} ${torch_part} hub ${spoke_libraries} CLI11::CLI11 benchmark::benchmark
    LibTorch::torch GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(parity_torch_tests PROPERTIES LINKER_LANGUAGE CXX ENABLE_EXPORTS ON)
  if(TARGET registry)
    add_dependencies(parity_torch_tests registry) # tests of the command line run it
  endif()
  parity_add_tests(parity_torch_tests 1)
endif()

# Cases are run by parity itself, in every build: under a sanitizer this is what looks into the kernels.
if(TARGET parity)
  add_test(NAME registry COMMAND parity check WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME lane.smoke COMMAND parity run --lane smoke --quiet --force --out ${CMAKE_BINARY_DIR}/smoke
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(lane.smoke PROPERTIES TIMEOUT 1500 RUN_SERIAL ON)
endif()

add_test(NAME includes COMMAND ${CMAKE_SOURCE_DIR}/ci/includes)
add_test(NAME includes.self_test COMMAND ${CMAKE_SOURCE_DIR}/ci/includes --self-test)

# One file per header, which includes it twice and nothing else. Headers of rooms that this build leaves out are left out.
set(header_units "")
foreach(header IN LISTS every_hpp)
  if(header MATCHES "^references/model/|^harness/torch/" AND NOT PARITY_HAS_TORCH)
    continue()
  endif()
  string(MAKE_C_IDENTIFIER ${header} unit)
  file(CONFIGURE OUTPUT headers/${unit}.cpp CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
  if(header MATCHES "_(avx2|avx512)\\.hpp$") # optimised: without, GCC's intrinsics are macros whose conversions are taken for ours
    parity_instruction_set_flags(${CMAKE_MATCH_1} flags)
    set_source_files_properties(${CMAKE_BINARY_DIR}/headers/${unit}.cpp PROPERTIES COMPILE_OPTIONS "${flags};-O1")
  endif()
  list(APPEND header_units ${CMAKE_BINARY_DIR}/headers/${unit}.cpp)
endforeach()
if(header_units AND NOT PARITY_SANITIZE) # nothing runs, so there is nothing to instrument
  add_library(headers OBJECT EXCLUDE_FROM_ALL ${header_units})
  target_compile_options(headers PRIVATE -O0 -g0)
  target_link_libraries(headers PRIVATE parity_flags hub ${spoke_libraries} benchmark::benchmark)
  if(PARITY_HAS_TORCH)
    target_link_libraries(headers PRIVATE LibTorch::torch)
  endif()
  add_test(NAME headers COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target headers)
  set_tests_properties(headers PROPERTIES RUN_SERIAL ON TIMEOUT 900)
endif()
