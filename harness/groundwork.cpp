// What the candidates of a subject share: inputs, truth, bases and vacuity, computed once.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

#include "harness/failure.hpp"
#include "harness/source_path.hpp"
#include "harness/worker.hpp"

namespace parity {
namespace {

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Groundwork::Groundwork(const Subject& subject, bool gradients)
    : subject_(subject), gradients_(gradients) {
  const Stopwatch generating;
  inputs_ = subject.inputs();
  times_.generate = generating.ms();
  if (subject.check == Check::Bitwise) return;  // a kernel is compared with itself
  const Stopwatch reference;
  expected_ = subject.truth ? subject.truth(inputs_)
                            : registry()
                                  .op_or_throw(subject.problem.op)
                                  .reference(subject.problem, inputs_, gradients);
  times_.reference = reference.ms();
}

Known Groundwork::known(const Contract& contract) {
  Prepared& p = prepared_[contract.key()];
  const bool wanted =
      subject_.check != Check::Bitwise && subject_.judge_base && expected_.refused.empty();
  if (wanted && !std::exchange(p.done, true)) {
    const OpDef* op = registry().op(subject_.problem.op);
    const Stopwatch watch;
    try {
      if (!op || !op->base) throw Failure(fmt::format("op '{}' has no base", subject_.problem.op));
      p.base = run_base(*op, subject_.problem, contract, inputs_, gradients_);
      measure_noise(p.base, expected_);
      if (subject_.check != Check::Exact)
        p.vacuous = vacuity(subject_, op, contract, inputs_, expected_, p.base);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      p.failed = e.what();
    }
    p.ms = watch.ms();
  }
  if (!p.failed.empty()) throw Failure("base at contract " + contract.name + ": " + p.failed);
  Times times = times_;
  times.base = p.ms;
  return {.inputs = inputs_,
          .expected = expected_,
          .base = p.base,
          .vacuous = p.vacuous,
          .times = times};
}

bool wants_gradients(const Subject& subject, std::span<const std::size_t> candidates) {
  return std::ranges::any_of(candidates, [&](std::size_t i) {
    const auto direction = direction_of(subject, subject.candidates[i]);
    return direction && *direction != Direction::Forward;
  });
}

CaseRecord error_record(const Subject& subject, const Candidate& candidate,
                        const Trouble& trouble) {
  CaseRecord record = blank_record(subject, candidate);
  record.status = name(Status::Error);
  record.error_kind = trouble.kind;
  record.reason = trouble.reason;
  return record;
}

Trouble trouble_of(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return {"memory", "out of memory"};
  } catch (const Failure& e) {
    return {"harness", fmt::format("{} ({}:{})", e.what(), in_repository(e.file), e.line)};
  } catch (const std::exception& e) {
    return {"harness", e.what()};
  } catch (...) {
    return {"harness", "something that is no exception was thrown"};
  }
}

}  // namespace parity
