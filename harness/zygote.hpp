// A process that has loaded a library (LibTorch takes a third of a second) and forks the children
// that do the work from then on. The children belong to the suite, not to it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/worker.hpp"

namespace parity {

class Zygote {
 public:
  // Forks; the subjects are those of the suite, by index.
  Zygote(const std::vector<Subject>&, const SuiteOptions&, const SuiteHooks&,
         const std::string& library);
  ~Zygote();
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  // Waits until the library is loaded, at its first call; "" or why it is not.
  const std::string& trouble(double timeout_s);
  // The child writes its frames to `out`, the first of them its pid.
  void start(std::span<const Work>, int out);

 private:
  pid_t pid_ = -1;
  Fd socket_ = {};
  std::optional<std::string> trouble_ = {};  // known once the library answered
};

}  // namespace parity
