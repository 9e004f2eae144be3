#include "cli/mesh/talk_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "cli/mesh/rank_answers.h"
#include "cli/mesh/returned_copies.h"
#include "cli/support/choose_mesh.h"
#include "cli/support/chosen_ranks.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "common/address/actor_words.h"
#include "common/base/quantity.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

/// Ranks that are no slice are called block by block, so many blocks at a time.
constexpr std::size_t kCallsAtOnce = 64;

struct TalkArguments {
  HostChoice hosts;
  bool is_call = true;
  /// See selector.h.
  std::string selector;
  /// A port; for actors, a message.
  std::string to;
  std::string actor;
  /// "-": stdin.
  std::string body;
  bool raw = false;
  /// A reducer; empty: every answer by itself.
  std::string reduce;
};

/// Where in procs a message goes, and what it is.
struct Message {
  /// A port of the procs themselves.
  std::uint32_t port = 0;
  /// The actors that it is for.
  std::optional<Name> actor = {};
  MessageType type = 0;
  std::string body = {};
};

Result<Message> make_message(const TalkArguments& arguments) {
  Message message;
  const auto number = parse_whole<std::uint32_t>(arguments.to);
  if (arguments.actor.empty()) {
    if (!number || *number == 0)
      return fail(ErrorCode::parse_error, "'" + arguments.to +
                                              "' is no port: ports are numbers from 1; messages "
                                              "with names are those of actors (--actor)");
    message.port = *number;
  } else {
    auto name = Name::parse(arguments.actor);
    if (!name) return fail(name.error());
    message.actor = std::move(*name);
    message.type = number ? MessageType(*number) : MessageType(arguments.to);
  }
  message.body = arguments.body;
  if (arguments.body == "-") {
    std::ostringstream text;
    text << std::cin.rdbuf();
    if (std::ferror(stdin) != 0)
      return fail(ErrorCode::io_error, "the body cannot be read from stdin");
    message.body = std::move(text).str();
  }
  return message;
}

Result<RankAnswers> call(Context& context, const ProcMeshRef& view, const Message& message,
                         std::chrono::milliseconds limit) {
  if (!message.actor) return context.call(view, message.port, message.body, limit);
  const auto actors = ActorView::attach(context, ActorMeshRef(view, *message.actor));
  if (!actors) return fail(actors.error());
  return actors->call(message.type, message.body, limit);
}

Result<void> cast(Context& context, const ProcMeshRef& view, const Message& message) {
  if (!message.actor) return context.cast(view, message.port, message.body);
  const auto actors = ActorView::attach(context, ActorMeshRef(view, *message.actor));
  if (!actors) return fail(actors.error());
  return actors->send(message.type, message.body);
}

/// `ask(view, time)` for each of them, many at once; `take(view, what came of it)`.
template <typename Ask, typename Take>
void ask_all(const std::vector<ProcMeshRef>& views, std::chrono::milliseconds limit, const Ask& ask,
             const Take& take) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (std::size_t begin = 0; begin < views.size(); begin += kCallsAtOnce) {
    const auto last = std::min(views.size(), begin + kCallsAtOnce);
    const auto left = std::max(
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()),
        kLeastTime);
    std::vector<
        std::future<std::invoke_result_t<Ask, const ProcMeshRef&, std::chrono::milliseconds>>>
        calls;
    for (auto i = begin; i < last; ++i)
      calls.push_back(std::async(std::launch::async, ask, std::cref(views[i]), left));
    for (auto i = begin; i < last; ++i) take(views[i], calls[i - begin].get());
  }
}

RankAnswerMap call_all(Context& context, const std::vector<ProcMeshRef>& views,
                       const Message& message, std::chrono::milliseconds limit) {
  RankAnswerMap all;
  ask_all(
      views, limit,
      [&](const ProcMeshRef& view, std::chrono::milliseconds left) {
        return call(context, view, message, left);
      },
      [&](const ProcMeshRef& view, Result<RankAnswers> answers) {
        for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
          if (const auto rank = view.create_rank(ordinal))
            all.emplace(*rank, answers ? std::move((*answers)[ordinal])
                                       : Result<std::string>(fail(answers.error())));
        }
      });
  return all;
}

/// Those of several views as those of one.
void merge_into(ReducedAnswer& all, const Reducer& reducer, const ProcMeshRef& view,
                const Result<Accumulation>& part) {
  Result<void> merged;
  if (!part) {
    merged = fail(part.error());
  } else if (part->value && all.value) {
    merged = reducer.combine(*all.value, *part->value);
  } else if (part->value) {
    all.value = part->value;
  }
  if (merged) all.ranks += part->ranks.num_ranks();
  for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
    const auto rank = view.create_rank(ordinal);
    if (!rank) continue;
    if (part && part->errors.contains(ordinal)) {
      all.errors.emplace(*rank, part->errors.at(ordinal));
    } else if (!merged) {
      all.errors.emplace(*rank, merged.error());
    }
  }
}

int reduce(Context& context, const MeshReport& mesh, const std::vector<ProcMeshRef>& views,
           const Message& message, const Reducer& reducer, const TalkArguments& arguments) {
  ReducedAnswer all;
  ask_all(
      views, arguments.hosts.timeout,
      [&](const ProcMeshRef& view, std::chrono::milliseconds left) -> Result<Accumulation> {
        const auto actors = ActorView::attach(context, ActorMeshRef(view, *message.actor));
        if (!actors) return fail(actors.error());
        return actors->accumulate(message.type, message.body, reducer.name, {.deadline = left});
      },
      [&](const ProcMeshRef& view, const Result<Accumulation>& part) {
        merge_into(all, reducer, view, part);
      });
  return show_reduced(mesh, all, arguments.reduce, arguments.hosts.json);
}

/// The ranks that a cast did not reach, and why, by create rank. Each is asked behind the message
/// what it goes by: it answers in order, also while its program computes, and what it could not
/// take has come back by then.
RankErrors missed_ranks(Context& context, const std::vector<ProcMeshRef>& views,
                        const Message& message, const ReturnedCopies& returned,
                        std::chrono::milliseconds limit) {
  RankErrors missed;
  ask_all(
      views, limit,
      [&](const ProcMeshRef& view, std::chrono::milliseconds left) {
        return context.settings(view, left);
      },
      [&](const ProcMeshRef& view, const auto& answers) {
        for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
          const auto rank = view.create_rank(ordinal);
          const auto error = !answers               ? answers.error()
                             : !(*answers)[ordinal] ? (*answers)[ordinal].error()
                                                    : Error(ErrorCode::none, {});
          // A proc of an older release does not know the question, but it has answered.
          if (rank && error.code() != ErrorCode::none && error.code() != ErrorCode::no_such_port)
            missed.emplace(*rank, error);
        }
      });
  const auto copies = returned.wait_for(context.num_returned(), kLeastTime);
  if (copies.empty()) return missed;
  std::map<std::uint64_t, std::uint64_t> rank_of;
  for (const auto& view : views) {
    for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
      const auto rank = view.create_rank(ordinal);
      const auto proc = view.proc_at(ordinal);
      if (rank && proc) rank_of.emplace(proc->key(), *rank);
    }
  }
  for (const auto& copy : copies) {
    const auto found = rank_of.find(copy.key);
    if (found == rank_of.end()) continue;
    missed.insert_or_assign(
        found->second,
        message.actor ? in_names(copy.error, *message.actor, 0, message.type) : copy.error);
  }
  return missed;
}

int complain_of(const std::string& why, int code) {
  complain(why);
  return code;
}

int cast_all(ChosenRanks& chosen, const Message& message, const ReturnedCopies& returned,
             const TalkArguments& arguments) {
  auto& [hosts, mesh, views] = chosen;
  std::uint64_t ranks = 0;
  for (const auto& view : views) {
    if (const auto sent = cast(hosts.context, view, message); !sent)
      return complain_of(sent.error().to_string(), kFailed);
    ranks += view.num_ranks();
  }
  const auto missed =
      missed_ranks(hosts.context, views, message, returned, arguments.hosts.timeout);
  return show_cast(mesh, missed, ranks, message.body.size(), arguments.hosts.json);
}

int talk(const TalkArguments& arguments) {
  if (const auto selector = Selector::parse(arguments.selector); !selector)
    return complain_of(selector.error().detail(), kUsage);
  const auto message = make_message(arguments);
  if (!message) return complain_of(error_words(message.error()), kUsage);
  const auto reducer =
      Reducers::builtin().find(arguments.reduce.empty() ? "count" : arguments.reduce);
  if (!reducer) return complain_of(error_words(reducer.error()), kUsage);
  const ReturnedCopies returned;
  auto found =
      choose_views(arguments.selector, arguments.hosts, {.on_returned = returned.handler()});
  if (const int* code = std::get_if<int>(&found)) return *code;
  auto& [hosts, mesh, views] = std::get<ChosenRanks>(found);

  if (mesh.kind == ProcKind::plain)
    return complain_of("mesh " + mesh.name +
                           " consists of plain procs, which take no messages: start programs that "
                           "use the library with meshbus run --mesh or meshbus spawn --mesh",
                       kFailed);
  if (!arguments.reduce.empty())
    return reduce(hosts.context, mesh, views, *message, *reducer, arguments);
  if (arguments.is_call)
    return show_answers(mesh, call_all(hosts.context, views, *message, arguments.hosts.timeout),
                        arguments.hosts.json ? AnswerForm::json
                        : arguments.raw      ? AnswerForm::raw
                                             : AnswerForm::lines);
  return cast_all(std::get<ChosenRanks>(found), *message, returned, arguments);
}

constexpr const char* kRanksHelp =
    "RANKS are those of a mesh, with or without its uuid, or of the only one that there is:\n"
    "  trainers                   all\n"
    "  trainers[0-5,7]            by number\n"
    "  trainers[host=1,gpu=0:4]   a slice: LABEL=INDEX or LABEL=[BEGIN]:[END][:STEP]\n"
    "  [0-5,7]   host=1,gpu=0:4   the same of the only mesh\n"
    "TO is a port of their programs; with --actor NAME a message, by name or number, for the "
    "actors "
    "of that name.";

CLI::App& add_talk(CLI::App& app, Commands& commands, const std::string& name, const Help& help,
                   const std::shared_ptr<TalkArguments>& arguments) {
  auto& verb = commands.add(app, name, help, [arguments] { return talk(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("RANKS", arguments->selector, "Which ranks of which mesh; see below")->required();
  verb.add_option("TO", arguments->to, "A port, or with --actor a message")->required();
  verb.add_option("BODY", arguments->body, "What to send; - reads it from stdin; default: nothing");
  verb.add_option("--actor", arguments->actor, "For the actors of this name")->type_name("NAME");
  return verb;
}

}  // namespace

void add_call(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<TalkArguments>();
  auto& verb =
      add_talk(app, commands, "call",
               {.meaning = "Ask ranks of a running mesh, all at once, and show what each answers",
                .examples = {"call 'train[0-3]' 7 status", "call train --actor counter get"},
                .details = kRanksHelp,
                .exit_codes = "0; 1 no such mesh or rank, or a host or a rank does not answer"},
               arguments);
  auto* raw =
      verb.add_flag("--raw", arguments->raw, "Answers as they are, by rank, without prefixes")
          ->excludes(verb.get_option("--json"));
  verb.add_option(
          "--reduce", arguments->reduce,
          "One value instead of the answers of actors; each host reduces those of its ranks")
      ->type_name("sum|min|max|count|any|all|overlay")
      ->needs(verb.get_option("--actor"))
      ->excludes(raw);
}

void add_cast(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<TalkArguments>();
  arguments->is_call = false;
  add_talk(app, commands, "cast",
           {.meaning = "Send ranks of a running mesh a message that needs no answer",
            .examples = {"cast train 7 reload", "cast 'train[host=1]' --actor counter reset"},
            .details = kRanksHelp,
            .exit_codes = "0 every rank has the message; 1 no such mesh, rank, port or actor, or a "
                          "host or a rank does not answer"},
           arguments);
}

}  // namespace meshbus::cli
