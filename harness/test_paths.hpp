// Where the tests find the sources (golden files) and the build folder (the executable). Defined by
// the build, for tests only.
#pragma once

namespace parity::test {

extern const char* const kSourceDir;
extern const char* const kBinaryDir;

}  // namespace parity::test
