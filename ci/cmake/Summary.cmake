# What this build has and what it leaves out; kept in <build>/summary.txt too. What is left out is `unsupported` when it is asked for.

file(WRITE ${CMAKE_BINARY_DIR}/summary.txt "")

function(parity_line what has reason)
  if(has)
    set(line "with ${what}: ${reason}")
  else()
    set(line "without ${what}: ${reason}")
  endif()
  message(STATUS "parity ${line}")
  file(APPEND ${CMAKE_BINARY_DIR}/summary.txt "${line}\n")
endfunction()

if(PARITY_HAS_CUDA)
  set(PARITY_CUDA_REASON "nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
parity_line("CUDA kernels" ${PARITY_HAS_CUDA} "${PARITY_CUDA_REASON}")

if(PARITY_HAS_MPI)
  parity_line("MPI" ON "MPI ${MPI_CXX_VERSION}, for ranks that are processes (--comm mpi)")
else()
  parity_line("MPI" OFF "libopenmpi-dev not found (ci/setup installs it)")
endif()

if(PARITY_HAS_TORCH AND LibTorch_CUDA)
  set(torch_reason "${LibTorch_VERSION} in ${LibTorch_FOLDER}, on CPU and GPU")
elseif(PARITY_HAS_TORCH)
  set(torch_reason "${LibTorch_VERSION} in ${LibTorch_FOLDER}, on the CPU")
elseif(PARITY_TORCH)
  set(torch_reason "2.11.0 not found (ci/setup fetches it)")
else()
  set(torch_reason "switched off (PARITY_TORCH=OFF)")
endif()
parity_line("LibTorch" ${PARITY_HAS_TORCH} "${torch_reason}")

if(NOT GTest_FOUND)
  parity_line("unit tests" OFF "GoogleTest not found (ci/setup installs it)")
endif()
