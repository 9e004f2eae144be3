#include "cli/hands/cp_command.h"

#include <CLI/CLI.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/hands/copy_session.h"
#include "cli/hands/hand_options.h"
#include "cli/hands/place_text.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "client/src/context/context_core.h"
#include "wire/hands_generated.h"

namespace meshbus::cli {
namespace {

struct CopyArguments {
  HostChoice hosts;
  std::vector<std::string> places;
};

ExecRequest request_for(const HandRanks& ranks, const RankReport& rank, wire::ExecTask task,
                        const std::vector<std::string>& paths) {
  return {.host = rank.host,
          .mesh = ranks.mesh.name,
          .rank = rank.rank,
          .task = task,
          .arguments = paths,
          .has_input = task == wire::ExecTask::receive};
}

int refuse(const std::string& text) {
  complain(text);
  return kUsage;
}

void add_uploads(CopySession& session, HandRanks& ranks, const std::vector<std::string>& from,
                 const std::string& to) {
  for (const auto& rank : ranks.ranks) {
    const auto name = ranks.name_of(rank);
    const HandRank of{ranks.mesh.name, rank.rank};
    auto exec = RankExec::start(ranks.hosts.context.core(),
                                request_for(ranks, rank, wire::ExecTask::receive, {to}));
    if (exec)
      session.add_upload(std::move(*exec), of, name, from);
    else
      session.add_failed(of, name, exec.error());
  }
}

/// From several ranks: a folder for each.
Result<std::string> place_of(const HandRanks& ranks, const RankReport& rank,
                             const std::string& to) {
  if (ranks.ranks.size() == 1) return to;
  std::string place = to + "/" + std::to_string(rank.rank);
  if (::mkdir(place.c_str(), 0777) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_error, place + ": " + std::strerror(errno));
  return place;
}

void add_downloads(CopySession& session, HandRanks& ranks, const std::vector<std::string>& from,
                   const std::string& to) {
  for (const auto& rank : ranks.ranks) {
    const auto name = ranks.name_of(rank);
    const HandRank of{ranks.mesh.name, rank.rank};
    const auto place = place_of(ranks, rank, to);
    auto writer = place ? TreeWriter::open(*place, ExpectedNames(from, std::to_string(rank.rank)))
                        : fail(place.error());
    if (!writer) {
      session.add_failed(of, name, writer.error());
      continue;
    }
    auto exec = RankExec::start(ranks.hosts.context.core(),
                                request_for(ranks, rank, wire::ExecTask::send, from));
    if (exec)
      session.add_download(std::move(*exec), of, name, std::move(*writer));
    else
      session.add_failed(of, name, exec.error());
  }
}

int run(const CopyArguments& arguments) {
  std::vector<PlaceText> places;
  for (const auto& text : arguments.places) places.push_back(PlaceText::parse(text));
  const PlaceText to = places.back();
  places.pop_back();
  if (places.empty()) return refuse("cp what? meshbus cp FROM... TO");
  std::vector<std::string> from;
  for (const auto& place : places) {
    if (place.ranks != places.front().ranks)
      return refuse("cp: all that is copied must come from the same ranks, or from here");
    if (place.path.empty()) return refuse("cp: a path is empty");
    from.push_back(place.path);
  }
  const bool is_download = places.front().is_remote();
  if (is_download == to.is_remote())
    return refuse(is_download ? "cp: one side must be here: copy to here first"
                              : "cp: neither side is a rank; RANKS:PATH is one, as train:3:/tmp");
  HandSignals signals;
  auto chosen = choose_hand_ranks(arguments.hosts, is_download ? places.front().ranks : to.ranks);
  if (const int* code = std::get_if<int>(&chosen)) return *code == kUsage ? kUsage : kFailed;
  auto& ranks = std::get<HandRanks>(chosen);
  CopySession session(
      signals, {.shows_progress = ::isatty(STDERR_FILENO) != 0, .is_json = arguments.hosts.json});
  if (is_download)
    add_downloads(session, ranks, from, to.path.empty() ? "." : to.path);
  else
    add_uploads(session, ranks, from, to.path.empty() ? "." : to.path);
  return session.run();
}

}  // namespace

void add_cp(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<CopyArguments>();
  auto& verb = commands.add(
      app, "cp",
      {.meaning = "Copy files and folders to and from ranks",
       .examples = {"cp train:3:/tmp/core.17 .", "cp config.yaml train:/etc/train/",
                    "cp 'train[0-7]:logs' collected/"},
       .details =
           "RANKS:PATH is a place at ranks, as they see it: relative paths begin in their "
           "directory, and files get their user. To several ranks it is copied to each; from "
           "several, into TO/RANK. Permissions and times are kept. A file is there under its name "
           "when it is complete, and not before. What comes from a rank has the last name of its "
           "PATH here; of '.', '..' and '/' the number of the rank. Symbolic links below FROM stay "
           "links; those that lead outside of the copy are left out, as sockets, pipes and devices "
           "are.",
       .exit_codes = "0 all was copied; 1 something was not or was left out, stderr says what; "
                     "128 + signal: it was broken off"},
      [arguments] { return run(*arguments); });
  verb.add_option("PLACES", arguments->places,
                  "FROM... TO: paths, and places at ranks: train:3:/tmp/x, train[0-3]:/tmp/x")
      ->required()
      ->expected(2, 10'000);
  verb.add_flag("--json", arguments->hosts.json, "Print what was copied as JSON");
  add_hand_hosts(verb, arguments->hosts);
}

}  // namespace meshbus::cli
