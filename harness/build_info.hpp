// How this library was built. The values are written by the build: the commit at every build, the
// rest when it is configured.
#pragma once

#include <span>
#include <string_view>

namespace parity {

struct NamedText {
  std::string_view name = {};
  std::string_view text = {};
};

struct BuildInfo {
  std::string_view version = {};  // of parity
  std::string_view commit =
      {};  // "a1b2c3d4e5f6", with "+changes" where tracked files differed; "unknown" outside git
  std::span<const NamedText> compiler = {};  // "id", "version", "build"; "cuda" where there is nvcc
  std::span<const NamedText> flags =
      {};  // by the files they hold for: "all", "*_avx2.cpp", "*_avx512.cpp", "cuda"
  std::span<const NamedText> libraries = {};  // versions at configuration; only what this build has
};

const BuildInfo& build_info();

}  // namespace parity
