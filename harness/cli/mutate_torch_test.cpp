// Faults of LibTorch kernels, which the executable has not loaded itself, in its kill table; and
// planted in a run.
#include <nlohmann/json.hpp>

#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

using nlohmann::json;

class TorchMutants : public CommandLine {};

TEST_F(TorchMutants, AreKilledByTheWorkerThatLoadsTheLibrary) {
  const Ran r = parity("mutate --only 'decoder.torch_f32!*' --clean 1 --json");
  const json report = json::parse(r.out);
  ASSERT_EQ(report["mutants"].size(), 4u) << r.err;
  for (const json& mutant : report["mutants"])
    EXPECT_EQ(mutant["status"], "killed") << mutant.dump();
  EXPECT_EQ(report["clean"]["false_alarms"], 0);
  EXPECT_EQ(r.exit, 0) << r.err;
}

TEST_F(TorchMutants, APlantedFaultIsNamedWithItsLayer) {
  const Ran r = parity("run 'decoder/layers*' --fault P-decoder-scale -q --out run");
  EXPECT_EQ(r.exit, 1) << r.err;
  EXPECT_NE(r.out.find("layer1 is the first over its own budget, in the forward: tap/layer1.attn"),
            std::string::npos)
      << r.out;
  EXPECT_NE(text("run/records.jsonl").find(R"("kind":"waterfall")"), std::string::npos);
  EXPECT_NE(text("run/records.jsonl").find("--fault P-decoder-scale"), std::string::npos);
}

TEST_F(TorchMutants, AFaultThatNoKernelHasIsRefusedWithItsNeighbours) {
  const Ran r = parity("run 'decoder/layers*' --fault P-decoder-scal --out run");
  EXPECT_EQ(r.exit, 2);
  EXPECT_NE(r.err.find("did you mean 'P-decoder-scale'?"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace parity::cli
