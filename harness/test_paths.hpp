// Where the tests find the sources (golden files), the build folder (the executable), and the
// disassembler of CUDA kernels ("" where there is none). Defined by the build, for tests only.
#pragma once

namespace parity::test {

extern const char* const kSourceDir;
extern const char* const kBinaryDir;
extern const char* const kCuobjdump;

}  // namespace parity::test
