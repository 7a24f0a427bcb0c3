#include "harness/cli/record_store.hpp"

#include <gtest/gtest.h>

namespace parity::cli {
namespace {

TEST(RecordStore, GivesBackWhatWasAddedInOrder) {
  RecordStore store;
  EXPECT_TRUE(store.all().empty());
  for (int i = 0; i < 100; ++i) {
    CaseRecord record;
    record.id = "op/N" + std::to_string(i);
    record.reason = std::string(static_cast<std::size_t>(i) * 1000, 'x');  // over several reads
    record.tensors.resize(static_cast<std::size_t>(i % 3));
    store.add(record);
  }
  for (int again = 0; again < 2; ++again) {  // reading takes nothing away
    const std::vector<CaseRecord> all = store.all();
    ASSERT_EQ(all.size(), 100u);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].id, "op/N" + std::to_string(i));
      EXPECT_EQ(all[i].reason.size(), i * 1000);
      EXPECT_EQ(all[i].tensors.size(), i % 3);
    }
  }
}

}  // namespace
}  // namespace parity::cli
