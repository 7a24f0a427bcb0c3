// What all fuzz targets share: an input as a file, and what a reader may answer to it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "harness/failure.hpp"

namespace parity::fuzz {

// One file of this process, written over by every input.
inline std::string file_of(const std::uint8_t* data, std::size_t size, const std::string& suffix) {
  static const std::string folder = [] {
    std::string pattern = "/dev/shm/parity_fuzz_XXXXXX";
    if (!::mkdtemp(pattern.data())) std::abort();
    return pattern;
  }();
  const std::string path = folder + "/input" + suffix;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return path;
}

// A hostile input is refused as bad usage, a golden that is none, or a broken message between
// processes. Anything else that is thrown ends the run: the fuzzer keeps the input.
template <class Read>
void expect_refusals(const Read& read) {
  try {
    read();
  } catch (const UsageError&) {
  } catch (const GoldenError&) {
  } catch (const Failure&) {
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace parity::fuzz
