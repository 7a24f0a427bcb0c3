# Which files belong to which target. One glob, checked at every build, so that a new file is built without editing anything.

file(GLOB_RECURSE every_cpp RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  harness/*.cpp references/*.cpp golden/*.cpp kernels/*.cpp cases/*.cpp reports/*.cpp)
file(GLOB_RECURSE every_cu RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS harness/*.cu kernels/*.cu)
file(GLOB_RECURSE every_hpp RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  harness/*.hpp references/*.hpp golden/*.hpp kernels/*.hpp cases/*.hpp reports/*.hpp)

# parity_take(OUT FROM REGEX): moves the files that match from one list to another.
function(parity_take out from regex)
  set(taken ${${from}})
  list(FILTER taken INCLUDE REGEX "${regex}")
  list(FILTER ${from} EXCLUDE REGEX "${regex}")
  set(${out} ${taken} PARENT_SCOPE)
  set(${from} ${${from}} PARENT_SCOPE)
endfunction()

set(rest ${every_cpp})
if(PARITY_HAS_CUDA)
  parity_take(unused rest "_nocuda(_test)?\\.cpp$")
endif()
parity_take(torch_test_cpp rest "_torch_test\\.cpp$")
parity_take(test_cpp rest "_test\\.cpp$")
parity_take(torch_bench_cpp rest "_torch_bench\\.cpp$")
parity_take(bench_cpp rest "_bench\\.cpp$")
parity_take(torch_cpp rest "^harness/torch/|^references/model/|^kernels/(.*/)?torch_[^/]*$")
list(APPEND torch_cpp ${torch_bench_cpp})
parity_take(main_cpp rest "^harness/cli/main\\.cpp$")
parity_take(mpi_cpp rest "^harness/dist/mpi_[^/]*\\.cpp$")
parity_take(cli_cpp rest "^harness/cli/")
parity_take(hub_cpp rest "^harness/")
parity_take(references_cpp rest "^references/")
parity_take(kernels_cpp rest "^kernels/")
parity_take(cases_cpp rest "^cases/")
parity_take(golden_cpp rest "^golden/")
parity_take(reports_cpp rest "^reports/")

set(rest_cu ${every_cu})
parity_take(test_cu rest_cu "_test\\.cu$")
parity_take(hub_cu rest_cu "^harness/")
parity_take(kernels_cu rest_cu "^kernels/")

parity_instruction_set(${every_cpp})
foreach(list hub_cpp kernels_cpp test_cpp bench_cpp)
  parity_last(${list})
endforeach()

# The step that writes registry.json runs as soon as the command line knows the verb.
set(cli_writes_registry OFF)
foreach(file IN LISTS cli_cpp main_cpp)
  file(STRINGS ${file} verb REGEX "\"registry\"" LIMIT_COUNT 1)
  if(verb)
    set(cli_writes_registry ON)
  endif()
endforeach()
