// A verb in a file of its own: what it takes, where that goes and what it does. cli.cpp turns every
// registered verb into a command, and adds what other rooms registered for a verb that exists.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/cli/arguments.hpp"

namespace parity::cli {

// Where the text behind an option goes. bool: a flag. A vector: the option may be repeated; as a
// positional it takes all words.
using Target = std::variant<bool*, int*, std::int64_t*, double*, std::optional<double>*,
                            std::string*, std::optional<std::string>*, std::vector<std::string>*>;

struct Option {
  const char* names = "";  // "--alpha", "-k,--count"; without a dash: the positional
  const char* type = "";   // what stands for the value in the help: "FILE"
  Target to = {};
  const char* what = "";
  double least = -std::numeric_limits<double>::infinity();  // numbers below or above are refused
  double most = std::numeric_limits<double>::infinity();
  bool required = false;
  int most_words = 0;                   // of a positional or a repeated option; 0: any number
  std::vector<std::string> words = {};  // where only these are accepted
};

// The groups of options that verbs share (Arguments holds their values).
struct Shared {
  bool selection = false, cases = false, candidate = false, execution = false, dumps = false,
       folder = false, output = true;
};

struct Verb {
  const char* path = "";  // "drift", "golden info"
  const char* what = "";
  const char* examples = "";
  std::vector<Option> options = {};
  Shared shared = {};
  int (*call)(const Arguments&) = nullptr;  // the exit code; trouble is thrown
};

// const RegisterVerb drift{{.path = "drift", ...}};
struct RegisterVerb {
  explicit RegisterVerb(Verb verb);
};
// const MoreOptions ranks{"run", {{"--ranks", "N,N", &state.ranks, "..."}}};
struct MoreOptions {
  MoreOptions(const char* path, std::vector<Option> options);
};

std::vector<Verb> registered_verbs();                         // sorted by path
std::vector<Option> options_beside(const std::string& path);  // sorted by name

}  // namespace parity::cli
