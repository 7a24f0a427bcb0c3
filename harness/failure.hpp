// A broken harness or unusable input, as opposed to a wrong number (data) or a case that cannot run
// (data). Caught in run_case (-> Status::Error) and in main (-> exit 2) only.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace parity {

class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what,
                   std::source_location where = std::source_location::current())
      : std::runtime_error(what), file(where.file_name()), line(where.line()) {}
  const char* file;
  unsigned line;
};

// Wrong use from outside: unknown flag, unreadable id, absent file. Exit 2, and no source line is
// shown.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A golden is missing, tampered with, or refuses its digest. Exit 5.
class GoldenError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace parity
