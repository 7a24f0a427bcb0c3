// The command line's grammar: the only file that includes CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <functional>

#include "harness/build_info.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/values.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::cli {
namespace {

constexpr const char* kAbout =
    R"(parity - does this kernel compute what it should, and would we have noticed if it did not?

Every candidate is judged against an fp64 truth of the same stored inputs, forward and backward, by bounds that say
where they come from. A run leaves a folder: records, JUnit, Markdown and one HTML page.)";

constexpr const char* kMore = R"(
Exit codes
  0 pass   1 a kernel is wrong   2 wrong usage or a broken harness   3 crash, timeout, no device
  4 not proven (nothing ran, a case proves nothing, a mutant survived)   5 golden missing or tampered with

Ids   op/sizes/dtype/fill[/options]/sSEED[@kernel[options]]   printed with every verdict and accepted everywhere;
      in a glob, * crosses '/'

Start here
  parity list                          what there is to judge
  parity run 'kda/*/bf16/*'            judge every bf16 case of one op, on all of its kernels
  parity show '<id>'                   inputs, contract and bound of one case, term by term
  parity <verb> --help)";

struct Cli {
  Arguments& args;
  CLI::App app{kAbout, "parity"};
  std::vector<std::pair<CLI::App*, std::function<int(const Arguments&)>>> verbs = {};

  CLI::App* verb(CLI::App& parent, const char* word, const char* what, const char* examples,
                 int (*call)(const Arguments&)) {
    CLI::App* sub = parent.add_subcommand(word, what);
    sub->footer(std::string("\nExamples\n") + examples);
    sub->allow_extras();  // unknown flags are refused below, with the nearest spelling
    if (call) verbs.emplace_back(sub, call);
    return sub;
  }

  void selection(CLI::App* sub) {
    sub->add_option("ids", args.names, "Ids or globs of cases; none: every case of the lane")
        ->type_name("ID");
    sub->add_option("--only", args.only,
                    "Keep what matches this glob over ids with their kernels, as 'kda/*@*_bf16'")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    sub->add_option("--from", args.from,
                    "Ids from a file, one a line; '#' comments; a line "
                    "'--from OTHER' nests")
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--lane", args.lane,
                    "smoke (seconds), full, sweep (full with rotating seeds), long")
        ->type_name("LANE");
    sub->add_option("--kernel", args.kernel, "Only kernels that match this glob")
        ->type_name("NAME");
    sub->add_option("--device", args.device,
                    "host, or the number of a CUDA device: only kernels that run there")
        ->type_name("N|host");
    sub->add_option("--seed", args.seed,
                    "Add this to every declared seed; in the sweep lane the day is added otherwise")
        ->type_name("N")
        ->check(is_seed);
  }
  void cases(CLI::App* sub) {
    selection(sub);
    sub->add_option("--direction", args.direction, "forward, backward or both")
        ->type_name("WORD")
        ->capture_default_str();
    sub->add_option("--check", args.check,
                    "Only cases of this check: parity, bitwise, exact, recording, golden")
        ->type_name("WORD");
    sub->add_option("--start", args.start, "Begin with this case; those before it are left out")
        ->type_name("ID");
    sub->add_option("--shard", args.shard, "The I-th of N equal parts of the cases")
        ->type_name("I/N");
    sub->add_option("--repeat", args.repeat,
                    "Launch each kernel N times and compare the results bit for bit")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    sub->add_flag(
        "--bitwise", args.bitwise,
        "Judge the claims of bit equality (repeats, splits, chunks, batches) on the chosen cases");
  }
  void execution(CLI::App* sub) {
    sub->add_option("-j,--jobs", args.jobs, "Cases at a time; 0: one per core")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
    sub->add_option("--timeout-per-case", args.timeout_s,
                    "A candidate that takes longer is an error of its own")
        ->type_name("S")
        ->check(is_seconds)
        ->capture_default_str();
    sub->add_option("--memory-per-case", args.memory_mib, "Address space of a case")
        ->type_name("MIB")
        ->check(CLI::Range(64, 1 << 24))
        ->capture_default_str();
    sub->add_flag("--isolate,!--no-isolate", args.isolate,
                  "Each case in a child process (the default); --no-isolate is for debuggers");
  }
  void folder(CLI::App* sub) {
    sub->add_option(
           "--out", args.out,
           "Folder of the run; an existing one needs --resume or --force. Default: parity-out, "
           "where the run before moves to parity-out.old")
        ->type_name("DIR");
    sub->add_flag("--resume", args.resume,
                  "Continue the run in the folder: finished cases are kept");
    sub->add_flag("--force", args.force, "Replace the run in the folder");
  }
  void dumps(CLI::App* sub) {
    sub->add_option(
           "--dump", args.dump,
           "Cases whose inputs, truth, base and candidate are written to dumps/ as HDF5: all, "
           "failed or none")
        ->type_name("WHICH")
        ->check(CLI::IsMember({"all", "failed", "none"}))
        ->capture_default_str();
    sub->add_option("--dump-limit", args.dump_limit,
                    "No further dump once those of this run take so much")
        ->type_name("BYTES")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  void output(CLI::App* sub) {
    sub->add_flag("--json", args.json, "One JSON document on stdout, nothing else");
    sub->add_flag("-q,--quiet", args.quiet, "No progress on stderr");
    sub->add_flag("-v,--verbose", args.verbose,
                  "Everything at full length; the id of a case before it runs");
  }

  explicit Cli(Arguments& arguments) : args(arguments) {
    app.footer(kMore);
    app.set_help_all_flag("--help-all", "Help of every verb");
    app.set_version_flag("--version",
                         fmt::format("parity {} ({})", build_info().version, build_info().commit));

    CLI::App* sub = verb(
        app, "list", "Ops, kernels, cases and goldens",
        "  parity list                    an overview\n"
        "  parity list --support          which kernel takes which case here, and why not\n"
        "  parity list --coverage         op x dtype x direction x kernel; ops without mutants\n"
        "  parity list 'kda/*' --lane full  ids, one a line",
        list);
    selection(sub);
    sub->add_flag("--support", args.support, "Which kernel takes which case on this machine");
    sub->add_flag("--coverage", args.coverage, "What is covered, and what is not");
    output(sub);

    sub = verb(app, "show", "One case: inputs, contract, bound term by term, waiver, golden",
               "  parity show 'kda/T64,H2,K64,V64/f32/uniform/s0@kda.chunked_f32'", show);
    sub->add_option("id", args.names, "Id of a case, with or without a kernel")
        ->type_name("ID")
        ->required();
    output(sub);

    sub =
        verb(app, "run", "Judge kernels: forward, backward, bit equality, exact probes, recordings",
             "  parity run                                 the smoke lane\n"
             "  parity run 'kda/*/bf16/*' --kernel '*chunked*' --direction backward\n"
             "  parity run '<id>' -v                       one case again, everything shown\n"
             "  parity run --lane full --shard 1/4 --out part1\n"
             "  parity run --lane full --resume            after a crash or Ctrl-C: finish what is "
             "left\n"
             "  parity run --repeat 5 --bitwise 'kda/*'    are results bit for bit what the "
             "contract claims?\n"
             "  parity run --recording kernels_h200.h5     judge tensors that a kernel returned "
             "elsewhere",
             run);
    cases(sub);
    sub->add_option("--recording", args.recordings,
                    "Judge the candidates stored in this file instead of launching kernels")
        ->type_name("FILE")
        ->allow_extra_args(false);
    execution(sub);
    dumps(sub);
    folder(sub);
    output(sub);

    sub =
        verb(app, "mutate",
             "Proof that the gate can fail: known faults switched on one by one, and false alarms",
             "  parity mutate --lane smoke\n  parity mutate --only 'kda*' -v      how each fault "
             "was caught",
             mutate);
    sub->add_option("--lane", args.lane, "Cases that the mutants meet: smoke, full, long")
        ->type_name("LANE");
    sub->add_option("--only", args.only, "Keep mutants or ids that match this glob")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    sub->add_option("--clean", args.clean, "Clean variants to judge, at least")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber);
    execution(sub);
    output(sub);

    sub = verb(app, "gate",
               "All that CI needs in one folder and one page: goldens, recordings, lanes, mutants",
               "  parity gate --lane full --out results --force", gate);
    sub->add_option("--lane", args.lane, "smoke, full (contains smoke) or long")->type_name("LANE");
    execution(sub);
    dumps(sub);
    folder(sub);
    output(sub);

    sub = verb(app, "bench",
               "Speed of kernels, of the comparator and of rival rules, beside a limit measured in "
               "the same run",
               "  parity bench --only 'compare/*' --repeats 5\n  parity bench --json > bench.json",
               bench);
    sub->add_option("--only", args.only, "Keep benchmarks that match this glob")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    sub->add_option("--repeats", args.repeats, "Measurements of each; the median counts")
        ->type_name("N")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    output(sub);

    sub = verb(app, "report", "Writes the pages of a finished or interrupted run again",
               "  parity report parity-out", report);
    sub->add_option("run", args.names, "Folder of a run")->type_name("DIR")->required();
    sub->add_option("--out", args.out, "Where the pages go; default: into the run's folder")
        ->type_name("DIR");
    output(sub);

    sub = verb(app, "check",
               "Lint of what is registered: ops without reference, case or mutant, bounds without "
               "a reason or wider than the ledger (cases/BOUNDS.tsv) has them, expired waivers, "
               "colliding names",
               "  parity check\n"
               "  parity check --write-ledger        bounds that are new or tighter\n"
               "  parity check --write-ledger --explained 'P is kept in bf16 now'",
               check);
    sub->add_flag("--write-ledger", args.write_ledger, "Bring the ledger of bounds up to date");
    sub->add_option("--explained", args.explained,
                    "Why bounds were loosened; goes into their lines of the ledger")
        ->type_name("WHY");
    output(sub);

    sub = verb(app, "registry", "", "", write_registry);
    sub->group("");  // hidden: a step of the build
    sub->add_option("--write", args.write, "")->required();

    CLI::App* golden = verb(
        app, "golden", "Write, check, compare and describe golden files",
        "  parity golden verify golden/independent/kda.h5\n  parity golden info FILE.h5", nullptr);
    golden->require_subcommand(1);
    golden_verbs(*golden);
  }

  void golden_verbs(CLI::App& golden) {
    CLI::App* sub = verb(
        golden, "freeze", "Freeze inputs, fp64 truth, scale and noise floor of cases into a file",
        "  parity golden freeze --file golden/data/kda.h5 'kda/*/f32/uniform/s0'", golden_freeze);
    selection(sub);
    sub->add_option("--file", args.file, "The golden file to write")->type_name("FILE")->required();
    sub->add_flag("--contiguous", args.contiguous,
                  "No chunks, no compression: larger, and as fast to read as the disk");
    sub->add_flag("--force", args.force, "Replace an existing file");

    sub = verb(golden, "verify",
               "Judge the reference (and with --kernel a kernel) against stored truth; both "
               "families of files",
               "  parity golden verify golden/independent/*.h5\n"
               "  parity golden verify golden/independent/kda.h5 --kernel kda.chunked_f32\n"
               "  parity golden verify --digests large.h5",
               golden_verify);
    sub->add_option("files", args.names, "Golden files, from anywhere")
        ->type_name("FILE")
        ->required();
    CLI::Option* kernel =
        sub->add_option("--kernel", args.kernel, "Judge this kernel too")->type_name("NAME");
    CLI::Option* only = sub->add_option("--only", args.only, "Keep what matches this glob")
                            ->type_name("GLOB")
                            ->allow_extra_args(false);
    sub->add_flag("--digests", args.digests,
                  "Only that the files are whole, by the manifest or the digests that they carry; "
                  "nothing is computed")
        ->excludes(kernel)
        ->excludes(only);
    execution(sub);
    output(sub);

    sub = verb(
        golden, "diff",
        "Two golden files, case by case, in noise units: toolchain noise or a change of meaning?",
        "  parity golden diff old.h5 new.h5", golden_diff);
    sub->add_option("files", args.names, "The older and the newer file")
        ->type_name("FILE")
        ->required()
        ->expected(2);
    output(sub);

    verb(golden, "manifest", "Bring golden/MANIFEST.json up to date with the files below golden/",
         "  parity golden manifest", golden_manifest);
    sub = verb(golden, "info", "Cases, ops, source and digest of golden files",
               "  parity golden info golden/independent/*.h5", golden_info);
    sub->add_option("files", args.names, "Golden files")->type_name("FILE")->required();
    output(sub);
  }
};

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); }))
    words.push_back(sub->get_name());
  return words;
}

std::string near_hint(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

// The word that stands where a verb belongs must be one.
void check_verb(const CLI::App& app, const std::string& path, int argc, char** argv, int at) {
  const std::vector<std::string> known = words_of(app);
  if (at >= argc)
    throw UsageError(fmt::format("{}: a verb is missing ({})", path, fmt::join(known, ", ")));
  const std::string word = argv[at];
  if (word.starts_with("-")) return;
  const auto is_it = [&](const CLI::App* sub) { return sub->get_name() == word; };
  if (app.get_subcommands(is_it).empty())
    throw UsageError(fmt::format("{}: no verb '{}'{} (verbs: {})", path, word,
                                 near_hint(word, known), fmt::join(known, ", ")));
}

// A flag whose value is empty is most often an unset variable of a script: it asks for nothing.
void refuse_empty_values(const CLI::App& sub, const std::string& path) {
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& value : option->results())
      if (value.empty() && option->get_items_expected_max() > 0)
        throw UsageError(fmt::format("{}: {} is empty", path, option->get_name()));
}

void refuse_extras(const CLI::App& sub, const std::string& path) {
  const std::vector<std::string> extras = sub.remaining();
  if (extras.empty()) return;
  const auto flag = std::ranges::find_if(
      extras, [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag == extras.end())
    throw UsageError(fmt::format("{}: unexpected '{}'", path, extras.front()));
  std::vector<std::string> known;
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::string word = flag->substr(0, flag->find('='));
  throw UsageError(fmt::format("{}: unknown flag '{}'{}", path, word, near_hint(word, known)));
}

}  // namespace

int dispatch(int argc, char** argv) {
  Arguments args;
  args.command = "parity";
  for (int i = 1; i < argc; ++i) args.command += " " + shell_word(argv[i]);
  Cli cli(args);
  if (argc < 2) {
    fmt::print(stderr, "{}", cli.app.help());
    return 2;
  }
  check_verb(cli.app, "parity", argc, argv, 1);
  if (std::string_view(argv[1]) == "golden")
    check_verb(*cli.app.get_subcommand("golden"), "parity golden", argc, argv, 2);
  try {
    cli.app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return cli.app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: {}", args.command, error.what()));
  }
  for (const auto& [sub, call] : cli.verbs) {
    if (!sub->parsed()) continue;
    args.verb = sub->get_name();
    refuse_extras(*sub, "parity " + args.verb);
    refuse_empty_values(*sub, "parity " + args.verb);
    if (!args.lane.empty()) parse_lane(args.lane);  // also where no case is asked for
    return call(args);
  }
  throw UsageError("parity: a verb is missing");
}

}  // namespace parity::cli
