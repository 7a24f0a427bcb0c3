#include "harness/drift/columns.hpp"

#include <gtest/gtest.h>

namespace parity::drift {
namespace {

TEST(DriftColumns, SpellingsInUse) {
  for (const char* step : {"step", "Step", "_step", "iteration", "global_step", "iter"})
    EXPECT_EQ(meaning_of(step).role, Role::Step) << step;
  for (const char* loss : {"loss", "lm loss", "lm-loss", "train/loss", "Train Loss",
                           "loss_metrics/global_avg_loss", "reduced_train_loss"})
    EXPECT_EQ(meaning_of(loss).role, Role::Loss) << loss;
  for (const char* norm : {"grad_norm", "grad-norm", "train/grad_norm", "Gradient Norm"})
    EXPECT_EQ(meaning_of(norm).role, Role::GradNorm) << norm;
  for (const char* rate : {"lr", "learning_rate", "learning-rate", "train/lr"})
    EXPECT_EQ(meaning_of(rate).role, Role::Rate) << rate;
  for (const char* other :
       {"time", "tokens_per_sec", "loss_scale", "val_loss", "grad_norm/", "mfu"})
    EXPECT_EQ(meaning_of(other).role, Role::Other) << other;
}

TEST(DriftColumns, ParametersKeepTheirNames) {
  const Meaning meaning = meaning_of("grad_norm/model.layers.0.W-Q");
  EXPECT_EQ(meaning.role, Role::Parameter);
  EXPECT_EQ(meaning.parameter, "model.layers.0.W-Q");
}

TEST(DriftColumns, OfSeveralLossesTheFirstInTheListIsMeant) {
  EXPECT_LT(meaning_of("loss").rank, meaning_of("lm loss").rank);
}

}  // namespace
}  // namespace parity::drift
