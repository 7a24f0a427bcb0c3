# Writes the sources behind harness/build_info.hpp. Included by the build, it writes what is known at configuration and adds a step that
# runs this same file as a script (cmake -P) at every build, to keep the commit; a file is touched only if its text changes.

if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(DEFINED ENV{PARITY_COMMIT}) # of sources without their history
    set(commit $ENV{PARITY_COMMIT})
  elseif(NOT failed)
    set(commit ${head})
    execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND commit "+changes")
    endif()
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
namespace parity {
extern const char* const kBuildCommit;
const char* const kBuildCommit = "@commit@";
}  // namespace parity
]] @ONLY)
  return()
endif()

file(STRINGS ${hdf5_c_INCLUDE}/H5public.h _line REGEX "define H5_VERS_INFO" LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" _hdf5 "${_line}")
string(TOUPPER "${CMAKE_BUILD_TYPE}" _type)
set(_flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${_type}} -ffp-contract=off -fno-fast-math")
if(PARITY_SANITIZE)
  string(APPEND _flags " -fsanitize=${PARITY_SANITIZE}")
endif()
string(STRIP "${_flags}" _flags)
parity_instruction_set_flags(avx2 _avx2)
parity_instruction_set_flags(avx512 _avx512)
list(JOIN _avx2 " " _avx2)
list(JOIN _avx512 " " _avx512)

set(_compiler "{\"id\", \"${CMAKE_CXX_COMPILER_ID}\"}, {\"version\", \"${CMAKE_CXX_COMPILER_VERSION}\"}, {\"build\", \"${CMAKE_BUILD_TYPE}\"}")
set(_flag_sets "{\"all\", \"${_flags}\"}, {\"*_avx2.cpp\", \"${_avx2}\"}, {\"*_avx512.cpp\", \"${_avx512}\"}")
set(_libraries "{\"fmt\", \"${fmt_VERSION}\"}, {\"hdf5\", \"${_hdf5}\"}, {\"eigen\", \"${Eigen3_VERSION}\"}, {\"nlohmann_json\", \"${nlohmann_json_VERSION}\"}")
if(PARITY_HAS_CUDA)
  string(APPEND _compiler ", {\"cuda\", \"nvcc ${CMAKE_CUDA_COMPILER_VERSION}\"}")
  string(APPEND _flag_sets ", {\"cuda\", \"${CMAKE_CUDA_FLAGS_${_type}} -lineinfo\"}")
  string(APPEND _libraries ", {\"cuda\", \"${CMAKE_CUDA_COMPILER_VERSION}\"}")
else()
  string(APPEND _libraries ", {\"cuda\", \"none\"}")
endif()
if(PARITY_HAS_TORCH)
  string(APPEND _libraries ", {\"libtorch\", \"${LibTorch_VERSION}\"}")
else()
  string(APPEND _libraries ", {\"libtorch\", \"none\"}")
endif()

set(build_info_cpp ${CMAKE_BINARY_DIR}/build_info.cpp ${CMAKE_BINARY_DIR}/build_commit.cpp)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/build_info.cpp CONTENT [[
#include "harness/build_info.hpp"
namespace parity {
extern const char* const kBuildCommit;
const BuildInfo& build_info() {
  static const NamedText compiler[] = {@_compiler@};
  static const NamedText flags[] = {@_flag_sets@};
  static const NamedText libraries[] = {@_libraries@};
  static const BuildInfo info{.version = "@PROJECT_VERSION@", .commit = kBuildCommit, .compiler = compiler, .flags = flags, .libraries = libraries};
  return info;
}
}  // namespace parity
]] @ONLY)
add_custom_target(build_commit
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D OUTPUT=${CMAKE_BINARY_DIR}/build_commit.cpp -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${CMAKE_BINARY_DIR}/build_commit.cpp VERBATIM)
