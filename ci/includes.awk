# Reads file names on stdin; prints FILE:LINE: what is wrong with an include there; exits 1 if anything is.

BEGIN {
  # Which rooms a room may include besides itself. A room that is not a key here may be included by nobody but the rooms that name it.
  edges["harness/numeric"] = ""
  edges["harness/plugin"] = ""
  edges["harness/cuda"] = "harness/numeric"
  edges["harness"] = "harness/numeric harness/cuda harness/plugin"
  edges["harness/dist"] = "harness harness/numeric harness/cuda"
  edges["harness/drift"] = "harness harness/numeric"
  edges["harness/torch"] = "harness harness/numeric"
  edges["harness/cli"] = "harness harness/numeric harness/cuda harness/plugin harness/dist harness/drift harness/torch references kernels cases golden reports"
  edges["references"] = "harness harness/numeric harness/dist"
  edges["references/model"] = "references harness harness/numeric harness/dist harness/torch"
  edges["kernels"] = "harness harness/numeric harness/cuda"
  edges["kernels/emulated"] = "kernels references harness harness/numeric" # kernels of a GPU on the software tensor core
  edges["cases"] = "harness harness/numeric"
  edges["golden"] = "harness harness/numeric harness/drift"
  edges["reports"] = "harness harness/numeric harness/drift"

  # Single headers that a room may include although it may not include their room.
  nouns["kernels"] = "kernels/emulated/instructions.hpp" # in place of a GPU's
  nouns["harness/numeric"] = "harness/dtype.hpp" # formats as data
  nouns["harness/cuda"] = "harness/dtype.hpp harness/shape.hpp harness/tensor.hpp harness/failure.hpp"

  # Third party: a pattern of the header, the files that may include it, and the rule in words.
  n = 0
  third(n++, "^fmt/", "\\.cpp$", "fmt is for .cpp files, outside numeric and outside what sees LibTorch")
  third(n++, "^Eigen/", "^references/", "Eigen is for references")
  third(n++, "^nlohmann/", "^golden/.*\\.cpp$|^harness/cli/.*\\.cpp$|^reports/(json|sarif)[a-z_]*\\.cpp$", "nlohmann is for golden/*.cpp, reports/json*.cpp, reports/sarif*.cpp and the command line")
  third(n++, "^(hdf5|H5)", "^golden/h5\\.hpp$", "HDF5 is for golden/h5.hpp")
  third(n++, "^(openssl/|xxhash)", "^golden/digest\\.cpp$", "OpenSSL and xxHash are for golden/digest.cpp")
  third(n++, "^zlib", "^reports/(pack|png)\\.cpp$|^reports/(sample|drift_page)_test\\.cpp$|^golden/io/zip\\.cpp$|^golden/io/[a-z_]*_test\\.cpp$", "zlib is for reports/pack.cpp, reports/png.cpp and golden/io/zip.cpp")
  third(n++, "^CLI/", "^harness/cli/cli\\.cpp$", "CLI11 is for harness/cli/cli.cpp")
  third(n++, "^(ATen|c10|torch|caffe2)/", "^harness/torch/(.*\\.cpp|module\\.hpp)$|^references/model/|^kernels/(.*/)?torch_[^/]*\\.cpp$|_torch_(test|bench)\\.cpp$", "LibTorch is for the files of libparity_torch.so and its tests")
  third(n++, "^(cuda|cub/|thrust/|cooperative_groups|nvrtc|cublas|nccl|cutlass/|cute/|mma\\.h|driver_types)", "\\.cuh?$|^harness/cuda/|_test\\.cpp$", "CUDA is for .cu, .cuh and harness/cuda")
  third(n++, "^mpi\\.h$", "^harness/dist/mpi[a-z_]*\\.cpp$", "MPI is for harness/dist/mpi*.cpp")
  third(n++, "^(gtest|gmock)/", "_test\\.[ch]pp$", "GoogleTest is for *_test.cpp")
  third(n++, "^benchmark/", "_bench\\.[ch]pp$|^harness/cli/.*\\.cpp$", "Google Benchmark is for *_bench.cpp and the command line")

  # What the C library, the kernel and the compiler bring.
  system_headers = "^(sys|linux|bits|arpa|netinet)/|^(unistd|fcntl|dlfcn|signal|poll|sched|pthread|dirent|time|termios|getopt|spawn|elf|link|malloc|glob|fnmatch|execinfo|cxxabi|pwd|locale|stdint|stddef|stdbool|stdio|errno|string|cpuid|immintrin|x86intrin|nmmintrin|cpu_set|ucontext|quadmath)\\.h$"
  bad = 0
  files = 0
}

function third(i, header, where, words) { third_header[i] = header; third_where[i] = where; third_words[i] = words }

function room_of(path) {
  if (path ~ /^harness\/(numeric|cuda|dist|drift|torch|cli|plugin)\//) return substr(path, 1, index(substr(path, 9), "/") + 7)
  if (path ~ /^references\/model\//) return "references/model"
  if (path ~ /^kernels\/emulated\//) return "kernels/emulated"
  return substr(path, 1, index(path, "/") - 1)
}

function has(list, word) { return index(" " list " ", " " word " ") > 0 }

function complain(words) { printf "%s:%d: %s\n", file, line_number, words; bad++ }

function exists(path,    line, there) {
  if (path in known) return known[path]
  there = (getline line < path) >= 0
  close(path)
  return known[path] = there
}

function check_project(path,    room, target) {
  room = room_of(file)
  target = room_of(path)
  if (!(target in edges)) { complain("\"" path "\" is not given from the root of the sources"); return }
  if (!exists(path)) { complain("\"" path "\" does not exist"); return }
  if (file ~ /_(test|bench)\.[ch]pp$/) return # tests and benchmarks see everything
  if (file ~ /^kernels\/.*\.cuh?$/ && target == "harness" && path != "harness/kernel.hpp") { complain("a CUDA kernel includes harness/kernel.hpp only, not \"" path "\""); return }
  if (room == "kernels" && (target == "harness/torch" || target == "references/model") && file ~ /\/torch_[^\/]*$/) return
  if (target == room || has(edges[room], target) || has(nouns[room], path)) return
  complain(room " must not include " target " (\"" path "\")")
}

function check_third(header,    i) {
  if (header !~ /[.\/]/ || header ~ system_headers) return # std, system
  if (header ~ /\.hpp$/ && header ~ /^(harness|references|kernels|cases|golden|reports)\//) { complain("a project header is included with quotes"); return }
  for (i = 0; i < n; i++) {
    if (header !~ third_header[i]) continue
    if (file !~ third_where[i] || (i == 0 && fmt_forbidden())) complain(third_words[i] " (<" header ">)")
    return
  }
  complain("<" header "> belongs to no library that the target graph knows")
}

function fmt_forbidden() {
  return file ~ /^harness\/numeric\// && file !~ /_test\.cpp$/ || file ~ /^harness\/torch\/|^references\/model\/|^kernels\/(.*\/)?torch_|_torch_(test|bench)\.cpp$/
}

{
  file = $0
  files++
  line_number = 0
  while ((getline line < file) > 0) {
    line_number++
    if (line !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
    name = line
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    quote = substr(name, 1, 1)
    name = substr(name, 2)
    sub(/[">].*$/, "", name)
    if (quote == "\"") check_project(name)
    else check_third(name)
  }
  close(file)
}

END {
  if (bad) { printf "includes: %d of the edges in %d files are not in the target graph\n", bad, files; exit 1 }
  if (!files) { print "includes: no source file was found"; exit 1 }
  printf "includes: %d files, every edge is in the target graph\n", files
}
