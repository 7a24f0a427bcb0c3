// What a column of a log is, by its name: the spellings of torchtitan, Megatron-LM, the Hugging
// Face trainer, Lightning, NeMo and plain scripts.
#pragma once

#include <string>
#include <string_view>

namespace parity::drift {

enum class Role { Step, Loss, GradNorm, Parameter, Rate, Other };

struct Meaning {
  Role role = Role::Other;
  int rank = 0;                // among columns of one role that stands once: the lowest is meant
  std::string parameter = {};  // of Role::Parameter
};

// Case does not matter, nor whether words are joined by '_', '-', ' '.
Meaning meaning_of(std::string_view column);

}  // namespace parity::drift
