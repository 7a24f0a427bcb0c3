// The command line as a shell sees it: exit codes, messages that help, what goes to which stream.
#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "golden/h5.hpp"
#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

TEST_F(CommandLine, HelpOfEveryVerbHasExamples) {
  EXPECT_EQ(parity("--help").exit, 0);
  EXPECT_NE(parity("--help").out.find("Start here"), std::string::npos);
  for (const char* verb : {"list", "show", "run", "diff", "diff-chains", "audit-bits", "mutate",
                           "gate", "bench", "report", "check", "golden", "golden freeze",
                           "golden verify", "golden diff", "golden info"}) {
    const Ran ran = parity(std::string(verb) + " --help");
    EXPECT_EQ(ran.exit, 0) << verb;
    EXPECT_NE(ran.out.find("Examples\n  parity "), std::string::npos) << verb;
    EXPECT_EQ(ran.err, "") << verb;
  }
  EXPECT_EQ(parity("--version").exit, 0);
  EXPECT_EQ(parity("--help").out.find("registry"),
            std::string::npos);  // a step of the build, not for people
}

TEST_F(CommandLine, UsageErrorsNameTheNearestSpelling) {
  EXPECT_EQ(parity("").exit, 2);
  expect_refused("lst", "no verb 'lst'; did you mean 'list'?");
  expect_refused("golden verfy x.h5", "no verb 'verfy'; did you mean 'verify'?");
  expect_refused("golden", "a verb is missing");
  expect_refused("run --shrad 1/2", "unknown flag '--shrad'; did you mean '--shard'?");
  expect_refused("run --lane smke", "no lane 'smke'; did you mean 'smoke'?");
  expect_refused("run --direction backwards --out x",
                 "no direction 'backwards'; did you mean 'backward'?");
  expect_refused("run --check bitwize", "no check 'bitwize'; did you mean 'bitwise'?");
  expect_refused("run 'kdaa/*'", "did you mean the op 'kda'?");
  expect_refused("run kda/x", "id 'kda/x'");
  expect_refused("run --kernel kda.chunked_f23",
                 "--kernel kda.chunked_f23: no such kernel; did you mean 'kda.chunked_f32'?");
  expect_refused("run --jobs many", "--jobs");
  expect_refused("run --repeat 0", "--repeat");
  expect_refused("show", "id is required");
  EXPECT_FALSE(fs::exists(dir / "parity-out"));  // a command that is refused leaves nothing
}

TEST_F(CommandLine, ValuesOfFlagsAreChecked) {
  expect_refused("run --seed -1", "no whole number");
  expect_refused("run --seed 99999999999999999999", "no whole number");
  expect_refused("run --timeout-per-case nan", "no number of seconds");
  expect_refused("run --timeout-per-case 0", "no number of seconds");
  for (const char* flag : {"--lane", "--only", "--kernel", "--out", "--device", "--shard"})
    expect_refused(std::string("run ") + flag + " ''", "is empty");
  expect_refused("list --lane smke", "no lane 'smke'");
  expect_refused("show 'kda/*'", "is a glob");
  expect_refused("run 'kda/nothing*'", "`parity list 'kda/*'`");
  expect_refused("mutate --only nosuch", "no mutant");
  EXPECT_FALSE(fs::exists(dir / "parity-out"));
}

TEST_F(CommandLine, TroubleIsADocumentToo) {
  for (const auto& [arguments, exit] :
       {std::pair("run --json nosuch", 2), std::pair("report --json none", 2),
        std::pair("run --json --device 99", 3), std::pair("list --json --lane smke", 2)}) {
    const Ran ran = parity(arguments);
    EXPECT_EQ(ran.exit, exit) << arguments;
    const auto document = nlohmann::json::parse(ran.out, nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << arguments << "\n" << ran.out;
    EXPECT_EQ(document["exit"], exit);
    EXPECT_NE(ran.err.find(document["error"].get<std::string>()), std::string::npos);
  }
}

TEST_F(CommandLine, FilesOfIdsNestAndSayWhatIsWrong) {
  expect_refused("run --from none.txt", "--from none.txt: cannot be read");
  put("a.txt", "--from b.txt\n");
  put("b.txt", "# a comment\n--from a.txt\n");
  expect_refused("run --from a.txt", "the file includes itself");
  put("c.txt", "# nothing\n\n");
  expect_refused("run --from c.txt", "names no case");
  put("sub/d.txt", "--from ../e.txt\n");
  put("e.txt", "  kdaa/*   # comment\n");
  expect_refused("run --from sub/d.txt", "no case matches 'kdaa/*'");
}

TEST_F(CommandLine, ShardsAndDevicesAreChecked) {
  for (const char* shard : {"0/2", "3/2", "1", "a/b", "1/0", "1/2/3"})
    expect_refused(std::string("run --shard ") + shard, std::string("--shard ") + shard);
  expect_refused("run --device gpu", "--device gpu: 'host' or the number of a CUDA device");
  const Ran ran = parity("run --device 99");
  EXPECT_EQ(ran.exit, 3);
  EXPECT_NE(ran.err.find("--device 99"), std::string::npos);
}

TEST_F(CommandLine, AFolderIsNeverOverwrittenBySurprise) {
  put("foreign/thesis.tex", "precious");
  expect_refused(recorded + "--out foreign", "holds something that is no run of parity");
  expect_refused(recorded + "--out foreign --force", "holds something that is no run of parity");
  expect_refused(recorded + "--out foreign/thesis.tex", "is a file");
  EXPECT_EQ(text("foreign/thesis.tex"), "precious");

  ASSERT_NE(parity(recorded + "--out mine").exit, -1);
  const std::string records = text("mine/records.jsonl");
  expect_refused(recorded + "--out mine", "--resume continues it, --force replaces it");
  expect_refused(recorded + "--out mine --resume --force", "give one of them");
  EXPECT_EQ(text("mine/records.jsonl"), records);
  put("mine/notes.txt", "kept");
  EXPECT_NE(parity(recorded + "--out mine --force").out, "");
  EXPECT_EQ(text("mine/notes.txt"), "kept");
}

TEST_F(CommandLine, TheDefaultFolderKeepsTheRunBefore) {
  parity(recorded);
  const std::string first = text("parity-out/records.jsonl");
  parity(recorded);
  EXPECT_EQ(text("parity-out.old/records.jsonl"), first);
  EXPECT_TRUE(fs::exists(dir / "parity-out/report.html"));
}

TEST_F(CommandLine, ResumingFinishesATornRun) {
  const Ran whole = parity(recorded + "--out run");
  const std::string records = text("run/records.jsonl");
  ASSERT_EQ(std::count(records.begin(), records.end(), '\n'), 3) << records;
  // As after kill -9 in the middle of the last record.
  put("run/records.jsonl", records.substr(0, records.size() - 50));
  const Ran resumed = parity(recorded + "--out run --resume");
  EXPECT_EQ(resumed.exit, whole.exit);
  const std::string again = text("run/records.jsonl");
  EXPECT_EQ(std::count(again.begin(), again.end(), '\n'), 3);
  const std::size_t first_two = again.find('\n', again.find('\n') + 1);
  EXPECT_EQ(again.substr(0, first_two),
            records.substr(0, first_two));  // the finished record was not run again
  EXPECT_EQ(resumed.out.substr(resumed.out.rfind('\n', resumed.out.size() - 2)),
            whole.out.substr(whole.out.rfind('\n', whole.out.size() - 2)));
}

TEST_F(CommandLine, JsonIsOneDocumentAndNothingElse) {
  for (const std::string& arguments :
       {std::string("list --json"), std::string("check --json"), recorded + "--json",
        "golden info --json " + goldens + "/kda.h5",
        "golden verify -q --json --only '*unit_l2norm*' " + goldens + "/kda.h5"}) {
    const Ran ran = parity(arguments);
    const auto document = nlohmann::json::parse(ran.out, nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << arguments << "\n" << ran.out << ran.err;
    EXPECT_EQ(document["schema"], 1) << arguments;
  }
}

TEST_F(CommandLine, GoldenFilesOfEveryKindGetTheirExit) {
  put("text.h5", "this is no HDF5 file");
  EXPECT_EQ(parity("golden verify text.h5").exit, 2);
  EXPECT_EQ(parity("golden verify none.h5").exit, 5);  // a golden that is missing
  EXPECT_EQ(parity("golden info text.h5").exit, 2);
  const Ran good = parity("golden verify --only '*unit_l2norm*' " + goldens + "/kda.h5");
  EXPECT_EQ(good.exit, 0) << good.out << good.err;
  EXPECT_NE(good.out.find(" pass, 0 fail"), std::string::npos);
  EXPECT_EQ(parity("golden verify --only '*unit_l2norm*' text.h5 " + goldens + "/kda.h5").exit,
            2);  // the worst of both
  const Ran whole = parity("golden verify --digests " + goldens + "/kda.h5");
  EXPECT_EQ(whole.exit, 0) << whole.out << whole.err;
  EXPECT_NE(whole.out.find("the manifest: "), std::string::npos) << whole.out;
  fs::copy_file(goldens + "/kda.h5", dir / "foreign.h5");  // no manifest here
  EXPECT_EQ(parity("golden verify --digests foreign.h5").exit, 4);
  expect_refused("golden verify --digests --kernel kda.chunked_f32 foreign.h5", "--digests");
}

TEST_F(CommandLine, DumpsHoldWhatACaseWasJudgedOn) {
  const std::string id = "'l2norm/N5,D64/f32/exact_rows/eps=0/s0@l2norm.rows'";
  EXPECT_EQ(parity("run " + id + " -q --out none").exit, 0);
  EXPECT_FALSE(fs::exists(dir / "none/dumps"));  // of what fails only, unless asked
  EXPECT_EQ(parity("run " + id + " -q --dump all --out all").exit, 0);
  const std::string name = "l2norm__N5,D64__f32__exact_rows__eps=0__s0@l2norm.rows.h5";
  ASSERT_TRUE(fs::exists(dir / "all/dumps" / name));
  const h5::File dump(dir / "all/dumps" / name);
  for (const char* path : {"/case/inputs/x", "/case/outputs/y", "/case/base/outputs/y",
                           "/case/candidates/l2norm.rows/outputs/y"})
    EXPECT_EQ(dump.read(path).elements(), 5 * 64) << path;
  EXPECT_EQ(dump.attributes("/case").at("op"), "l2norm");
  EXPECT_EQ(dump.attributes("/case").at("verdict"), "pass");
  EXPECT_EQ(dump.read("/case/outputs/y").spec.dtype, Dtype::F64);
  EXPECT_EQ(dump.read("/case/candidates/l2norm.rows/outputs/y").spec.dtype, Dtype::F32);
  // What was dumped can be judged again, or is refused with a reason; never a crash.
  const Ran again = parity("run -q --recording 'all/dumps/" + name + "' --out again");
  EXPECT_EQ(again.exit, 4);
  EXPECT_NE(again.out.find("does not say at which contract"), std::string::npos) << again.out;

  const Ran little = parity("run " + id + " -q --dump all --dump-limit 100 --out little");
  EXPECT_EQ(little.exit, 0);
  EXPECT_NE(little.err.find("--dump-limit leaves 100"), std::string::npos) << little.err;
  EXPECT_TRUE(fs::is_empty(dir / "little/dumps"));
  expect_refused("run --dump some", "--dump");
  expect_refused("run --dump-limit -1", "--dump-limit");
}

TEST_F(CommandLine, GoldensThatAreNotWhatTheyShouldBe) {
  fs::create_directories(dir / "folder.h5");
  for (const char* verb : {"golden verify ", "golden info ", "run --recording "})
    EXPECT_NE(parity(std::string(verb) + "folder.h5").err.find("is a folder"), std::string::npos);
  // A copy that nobody vouches for: truncated, it cannot be read.
  fs::copy_file(fs::path(goldens) / "kda.h5", dir / "cut.h5");
  fs::resize_file(dir / "cut.h5", 100000);
  EXPECT_EQ(parity("golden verify -q cut.h5").exit, 2);
  // The same under a manifest: tampered with.
  fs::create_directories(dir / "golden/independent");
  fs::copy_file(fs::path(goldens) / "../MANIFEST.json", dir / "golden/MANIFEST.json");
  fs::copy_file(dir / "cut.h5", dir / "golden/independent/kda.h5");
  Ran ran = parity("golden verify -q golden/independent/kda.h5");
  EXPECT_EQ(ran.exit, 5);
  EXPECT_NE(ran.err.find("of the manifest (truncated or replaced at offset"), std::string::npos);
  // Files from elsewhere that hold no case, or one of an op that is not known.
  h5::Writer empty(dir / "empty.h5");
  empty.attribute("/nothing", "note", "no op here");
  empty.close();
  EXPECT_EQ(parity("golden verify -q empty.h5").exit, 2);
  EXPECT_EQ(parity("golden info empty.h5").exit, 2);
  h5::Writer foreign(dir / "foreign.h5");
  foreign.attribute("/case", "op", "nonsense");
  foreign.dataset("/case/outputs/y", Tensor({.name = "y"}, std::vector<std::byte>(4)), false);
  foreign.close();
  EXPECT_EQ(parity("golden verify -q foreign.h5").exit, 4);
  expect_refused("run --recording foreign.h5", "holds no candidates");
  expect_refused("golden freeze --file none/x.h5 'l2norm/N5,D64/f32/exact_rows/eps=0/s0'", "none/");
}

// Composites without a kernel are frozen like any case; names of passes are no names of outputs.
TEST_F(CommandLine, ACaseWithoutAKernelIsFrozenAndVerified) {
  ASSERT_EQ(parity("golden freeze --file own.h5 'decoder/hash_unit/*'").exit, 0);
  EXPECT_EQ(parity("golden verify -q own.h5").exit, 0);
  expect_refused("golden freeze --file none.h5 'decoder/no_such_fill/*'", "no case matches");
}

// Every key of a run's folder that interface.md names is there, with its type.
TEST_F(CommandLine, RecordsHaveEveryKeyOfTheInterface) {
  using nlohmann::json;
  parity("run 'l2norm/*/f32/*' -q --out run");
  std::istringstream lines(text("run/records.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json run = json::parse(line);
  EXPECT_EQ(run["schema"], 1);
  EXPECT_EQ(run["kind"], "run");
  for (const char* key : {"started", "command", "commit", "lane"})
    EXPECT_TRUE(run[key].is_string()) << key;
  for (const char* key : {"cpu", "isa", "cores", "os"})
    EXPECT_TRUE(run["host"].contains(key)) << key;
  for (const char* key : {"compiler", "flags"}) EXPECT_TRUE(run[key].is_object()) << key;
  for (const char* key : {"libtorch", "hdf5", "cuda"})
    EXPECT_TRUE(run["libraries"].contains(key)) << key;
  for (const char* key : {"device", "seed"}) EXPECT_TRUE(run.contains(key)) << key;

  int cases = 0, judged = 0;
  const auto is_number = [](const json& value) {  // NaN and infinities are strings
    return value.is_number() || value == "nan" || value == "inf" || value == "-inf";
  };
  for (; std::getline(lines, line); ++cases) {
    const json record = json::parse(line);
    for (const char* key : {"kind", "id", "op", "kernel", "dtype", "fill", "direction", "check",
                            "status", "reason", "repro"})
      EXPECT_TRUE(record[key].is_string()) << key;
    for (const char* key : {"sizes", "options", "accounting", "time_ms"})
      EXPECT_TRUE(record[key].is_object()) << key;
    EXPECT_TRUE(record["seed"].is_number_unsigned());
    EXPECT_TRUE(record["hw_verified"].is_boolean());
    for (const char* key : {"produced", "compared", "unwritten"})
      EXPECT_TRUE(record["accounting"][key].is_number_integer()) << key;
    for (const char* key : {"inputs_unchanged", "canaries_whole"})
      EXPECT_TRUE(record["accounting"][key].is_boolean()) << key;
    for (const char* key : {"generate", "reference", "base", "kernel", "compare"})
      EXPECT_TRUE(is_number(record["time_ms"][key])) << key;
    if (record["status"] == "unsupported") continue;  // a kernel of a GPU that is not here
    ++judged;
    ASSERT_FALSE(record["tensors"].empty());
    for (const json& tensor : record["tensors"]) {
      for (const char* key : {"name", "role", "dtype", "bound_kind", "status"})
        EXPECT_TRUE(tensor[key].is_string()) << key;
      EXPECT_TRUE(tensor["shape"].is_array());
      for (const char* key :
           {"elements", "max_abs", "max_rel", "rel_l2", "cosine", "max_ulp", "norm_ratio",
            "mismatches", "offset_z", "gain", "gain_base", "gain_z", "zero_fraction", "bound_used",
            "base_bound_used", "floor", "bound_that_would_pass", "detectable"})
        EXPECT_TRUE(is_number(tensor[key])) << key << " is " << tensor[key];
      EXPECT_TRUE(tensor["grid"]["format"].is_string());
      EXPECT_TRUE(is_number(tensor["grid"]["share"]));
      EXPECT_TRUE(tensor["pattern"].is_string() || tensor["pattern"].is_null());
      for (const char* key : {"p50", "p90", "p99", "p999"})
        EXPECT_TRUE(is_number(tensor["quantiles"][key])) << key;
      if (tensor["worst"].is_null()) continue;  // nothing differs
      for (const char* key : {"truth", "base", "candidate", "ulp", "bound_used"})
        EXPECT_TRUE(is_number(tensor["worst"][key])) << key;
      EXPECT_TRUE(tensor["worst"]["index"].is_array());
      EXPECT_TRUE(tensor["worst"]["letters"].is_string());
    }
  }
  EXPECT_GT(judged, 3);
  EXPECT_GE(cases, judged);
  const json summary = json::parse(text("run/summary.json"));
  for (const char* key :
       {"pass", "fail", "unproven", "unsupported", "error", "waived", "expected_fail"})
    EXPECT_TRUE(summary["counts"][key].is_number_integer()) << key;
  EXPECT_TRUE(summary["exit"].is_number_integer());
  EXPECT_TRUE(summary["wall_ms"].is_number());
  EXPECT_TRUE(summary["mutants"].is_null());
  for (const auto& [name, path] : summary["paths"].items())
    EXPECT_TRUE(fs::exists(dir / path.get<std::string>())) << name;
}

TEST_F(CommandLine, ReportWritesThePagesAgain) {
  parity(recorded + "--out run");
  const std::string page = text("run/report.html");
  fs::remove(dir / "run/report.html");
  EXPECT_EQ(parity("report run").exit, 0);
  EXPECT_EQ(text("run/report.html"), page);
  EXPECT_EQ(parity("report run --out elsewhere").exit, 0);
  EXPECT_EQ(text("elsewhere/report.html"), page);
  expect_refused("report none", "is no run");
  put("torn/records.jsonl", "{\"kind\":\"run\",\"schema\":1}\n{\"kind\":\n{}\n");
  expect_refused("report torn", "records.jsonl:2");
}

TEST_F(CommandLine, QuietIsQuietAndPipesGetNoColour) {
  const Ran ran = parity(recorded);
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  EXPECT_LE(std::count(ran.out.begin(), ran.out.end(), '\n'), 40);
}

TEST_F(CommandLine, AGlobMayNameTheFillAfterTheOp) {
  const std::string by_id = parity("list 'l2norm/*/f32/exact_rows/*'").out;
  ASSERT_FALSE(by_id.empty());
  EXPECT_EQ(parity("list 'l2norm/exact_rows/f32'").out, "");  // no glob: an id, and not a whole one
  EXPECT_EQ(parity("list 'l2norm/exact_rows/f32*'").out, by_id);
  expect_refused("list 'l2norm/none*'", "no case matches 'l2norm/none*'");
}

TEST_F(CommandLine, ListTellsWhatThereIs) {
  const auto document = nlohmann::json::parse(parity("list --json").out);
  ASSERT_FALSE(document["ops"].empty());
  for (const char* key :
       {"name", "kind", "directions", "sources", "cases", "kernels", "mutants", "exact_probes"})
    EXPECT_TRUE(document["ops"][0].contains(key)) << key;
  for (const auto& kernel : document["kernels"])
    for (const char* key : {"name", "op", "file", "needs", "contract", "available", "why_not"})
      EXPECT_TRUE(kernel.contains(key)) << key;
  EXPECT_EQ(parity("list --support").exit, 0);
  EXPECT_EQ(parity("list --coverage").exit, 0);
}

}  // namespace
}  // namespace parity::cli
