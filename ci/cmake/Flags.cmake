# How every file is compiled. Floating point is a build setting: no contraction that the source did not ask for, no fast-math.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON) # a build folder may be moved

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug or RelWithDebInfo" FORCE)
endif()
# -g1 keeps line numbers for backtraces at a third of the build time and size of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS")

# A second build of the same file is free where ccache is present.
find_program(PARITY_CCACHE ccache)
mark_as_advanced(PARITY_CCACHE)
if(PARITY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PARITY_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${PARITY_CCACHE})
endif()
find_program(PARITY_MOLD mold)
mark_as_advanced(PARITY_MOLD)
if(PARITY_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()

add_library(parity_flags INTERFACE)
target_compile_options(parity_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fno-fast-math>
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra -lineinfo>")
if(PARITY_WERROR)
  target_compile_options(parity_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()

if(PARITY_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PARITY_SANITIZE}> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${PARITY_SANITIZE})
endif()

# parity_instruction_set_flags(NAME OUT): the flags of one instruction set.
function(parity_instruction_set_flags name out)
  set(flags -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt)
  if(name STREQUAL avx512)
    list(APPEND flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # its own avx512 headers read undefined registers on purpose (GCC bug 105593)
      list(APPEND flags -Wno-maybe-uninitialized -Wno-uninitialized)
    endif()
  endif()
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# parity_instruction_set(FILES...): flags by suffix. Inline functions of the standard library that such a file emits would be compiled for
# its instruction set too; the linker keeps the first copy that it meets, so these files come last in every list (parity_last).
function(parity_instruction_set)
  foreach(file IN LISTS ARGN)
    if(file MATCHES "_(avx2|avx512)(_test|_bench)?\\.cpp$")
      parity_instruction_set_flags(${CMAKE_MATCH_1} flags)
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${flags}")
    endif()
  endforeach()
endfunction()

# parity_last(LIST): moves the files of special instruction sets to the end of the list.
function(parity_last list)
  set(last ${${list}})
  list(FILTER last INCLUDE REGEX "_avx(2|512)(_test|_bench)?\\.cpp$")
  list(FILTER ${list} EXCLUDE REGEX "_avx(2|512)(_test|_bench)?\\.cpp$")
  set(${list} ${${list}} ${last} PARENT_SCOPE)
endfunction()
