# LibTorch as imported targets, without its own TorchConfig.cmake, which insists on a whole CUDA toolkit.
#
# Looked for in this order:
#   LibTorch_ROOT (variable or environment)                     a folder that holds torch/, or torch/ itself
#   an installed Python's torch, if it is of the wanted version
#   what ci/setup downloaded to PARITY_CACHE (default ~/.cache/parity)
#
# Defines LibTorch_FOUND, LibTorch_VERSION, LibTorch_FOLDER, LibTorch_CUDA and the target LibTorch::torch: headers as SYSTEM, torch_cpu
# and c10, an rpath to their folders; and torch_cuda and c10_cuda where this machine has a GPU and the libraries that they need.

if(DEFINED ENV{PARITY_CACHE})
  set(_cache $ENV{PARITY_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache $ENV{XDG_CACHE_HOME}/parity)
else()
  set(_cache $ENV{HOME}/.cache/parity)
endif()
set(_wanted ${LibTorch_FIND_VERSION})

find_program(PARITY_PYTHON3 python3)
mark_as_advanced(PARITY_PYTHON3)
set(_python_torch "")
if(PARITY_PYTHON3)
  execute_process(
    COMMAND ${PARITY_PYTHON3} -c "import importlib.util as u; print(u.find_spec('torch').origin)"
    OUTPUT_VARIABLE _origin OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _failed)
  if(NOT _failed)
    get_filename_component(_python_torch ${_origin} DIRECTORY)
  endif()
endif()

if(EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
  set(_downloads ${_cache}/libtorch-${_wanted}-cuda ${_cache}/libtorch-${_wanted})
else()
  set(_downloads ${_cache}/libtorch-${_wanted} ${_cache}/libtorch-${_wanted}-cuda)
endif()

# Nothing below is cached: an updated or removed LibTorch is seen at the next configuration.
set(LibTorch_FOLDER "")
foreach(_root IN LISTS LibTorch_ROOT ENV{LibTorch_ROOT} _python_torch _downloads)
  foreach(_folder ${_root} ${_root}/torch)
    if(LibTorch_FOLDER OR NOT EXISTS ${_folder}/version.py OR NOT EXISTS ${_folder}/lib/libtorch_cpu.so)
      continue()
    endif()
    file(STRINGS ${_folder}/version.py _line REGEX "^__version__ = ")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" _version "${_line}")
    if(_version VERSION_EQUAL _wanted)
      set(LibTorch_FOLDER ${_folder})
      set(LibTorch_VERSION ${_version})
    else()
      message(STATUS "LibTorch ${_version} in ${_folder} is not the wanted ${_wanted}")
    endif()
  endforeach()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_FOLDER VERSION_VAR LibTorch_VERSION)

set(LibTorch_CUDA OFF)
if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  set(_lib ${LibTorch_FOLDER}/lib)
  get_filename_component(_site ${LibTorch_FOLDER} DIRECTORY)
  file(GLOB _nvidia LIST_DIRECTORIES true ${_site}/nvidia/*/lib)
  set(_links ${_lib}/libtorch_cpu.so ${_lib}/libc10.so) # libtorch.so itself would drag in libtorch_cuda.so
  if((EXISTS /dev/nvidiactl OR EXISTS /dev/dxg) AND EXISTS ${_lib}/libtorch_cuda.so AND EXISTS ${_site}/nvidia/cudnn/lib)
    set(LibTorch_CUDA ON)
    # Nothing refers to symbols of libtorch_cuda.so; loading it is what registers its kernels.
    list(APPEND _links -Wl,--no-as-needed ${_lib}/libtorch_cuda.so ${_lib}/libc10_cuda.so -Wl,--as-needed)
  endif()
  add_library(LibTorch::torch INTERFACE IMPORTED)
  target_include_directories(LibTorch::torch SYSTEM INTERFACE
    ${LibTorch_FOLDER}/include ${LibTorch_FOLDER}/include/torch/csrc/api/include)
  target_link_libraries(LibTorch::torch INTERFACE ${_links})
  target_link_options(LibTorch::torch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${_lib})
  foreach(_folder IN LISTS _nvidia)
    target_link_options(LibTorch::torch INTERFACE -Wl,-rpath,${_folder} -Wl,-rpath-link,${_folder})
  endforeach()
endif()
