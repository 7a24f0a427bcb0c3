#include "harness/drift/columns.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace parity::drift {
namespace {

// In the order in which they are meant where a log has several.
constexpr std::array<std::string_view, 7> kSteps = {
    "step", "iteration", "global_step", "_step", "iter", "trainer/global_step", "steps"};
constexpr std::array<std::string_view, 14> kLosses = {"loss",
                                                      "train_loss",
                                                      "train/loss",
                                                      "lm_loss",
                                                      "training_loss",
                                                      "train/lm_loss",
                                                      "loss/train",
                                                      "loss_metrics/global_avg_loss",
                                                      "global_avg_loss",
                                                      "reduced_train_loss",
                                                      "train/loss_step",
                                                      "train_loss_step",
                                                      "train.loss",
                                                      "metrics/loss"};
constexpr std::array<std::string_view, 9> kNorms = {
    "grad_norm",       "train/grad_norm", "gradient_norm",   "global_grad_norm", "gradnorm",
    "train/grad_norm", "total_grad_norm", "train.grad_norm", "optim/grad_norm"};
constexpr std::array<std::string_view, 8> kRates = {
    "lr",         "learning_rate", "train/lr", "train/learning_rate",
    "lr/group_0", "optim/lr",      "train.lr", "lr_group0"};
constexpr std::array<std::string_view, 7> kParameters = {
    "grad_norm/", "grad_norms/",    "grad_norm.",      "gradnorm/",
    "grads/",     "gradient_norm/", "train/grad_norm/"};

template <std::size_t N>
bool find(const std::array<std::string_view, N>& list, std::string_view name, Role role,
          Meaning& meaning) {
  const auto it = std::ranges::find(list, name);
  if (it == list.end()) return false;
  meaning = {.role = role, .rank = static_cast<int>(it - list.begin())};
  return true;
}

}  // namespace

Meaning meaning_of(std::string_view column) {
  std::string name(column);
  for (char& c : name)
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Meaning meaning;
  if (find(kSteps, name, Role::Step, meaning) || find(kLosses, name, Role::Loss, meaning) ||
      find(kNorms, name, Role::GradNorm, meaning) || find(kRates, name, Role::Rate, meaning))
    return meaning;
  for (const std::string_view prefix : kParameters)
    if (name.starts_with(prefix) && name.size() > prefix.size())
      return {.role = Role::Parameter, .parameter = std::string(column.substr(prefix.size()))};
  return meaning;
}

}  // namespace parity::drift
