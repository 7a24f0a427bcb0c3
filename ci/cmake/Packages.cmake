# Third party. What the hub and the spokes cannot be without is required; the rest makes a smaller build, with a printed line.

macro(parity_require package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is missing. ci/setup installs everything that the build needs.")
  endif()
endmacro()

parity_require(Threads)
parity_require(fmt)
parity_require(Eigen3)
parity_require(nlohmann_json)
parity_require(CLI11)
parity_require(OpenSSL COMPONENTS Crypto)
parity_require(ZLIB)
parity_require(benchmark)

# parity_library(NAME HEADER [LIBRARY NAMES]): an INTERFACE target for what comes without a CMake package. Without library names: header-only.
function(parity_library name header)
  find_path(${name}_INCLUDE ${header} PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(${name}_INCLUDE)
  add_library(${name} INTERFACE)
  if(ARGN)
    find_library(${name}_LIBRARY NAMES ${ARGN})
    mark_as_advanced(${name}_LIBRARY)
    target_link_libraries(${name} INTERFACE ${${name}_LIBRARY})
  endif()
  if(NOT ${name}_INCLUDE OR (ARGN AND NOT ${name}_LIBRARY))
    message(FATAL_ERROR "${header} or its library is missing. ci/setup installs everything that the build needs.")
  endif()
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE})
endfunction()

parity_library(hdf5_c hdf5.h hdf5_serial hdf5)
parity_library(xxhash xxhash.h xxhash)

find_package(GTest QUIET)

find_package(MPI QUIET COMPONENTS CXX)
set(PARITY_HAS_MPI ${MPI_CXX_FOUND})

set(PARITY_HAS_TORCH OFF)
if(PARITY_TORCH)
  find_package(LibTorch 2.11.0 EXACT MODULE QUIET)
  set(PARITY_HAS_TORCH ${LibTorch_FOUND})
endif()
