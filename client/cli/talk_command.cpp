#include "client/cli/talk_command.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/chosen_ranks.h"
#include "client/cli/output_writer.h"
#include "client/cli/rank_json.h"
#include "client/cli/text_error.h"
#include "common/quantity.h"
#include "meshbus/client.h"
#include "meshbus/point.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Ranks that are no slice are called block by block, so many blocks at a time.
constexpr std::size_t kCallsAtOnce = 64;

/// Where in procs a message goes, and what it is.
struct Message {
  /// Of the procs themselves.
  std::uint32_t port = 0;
  /// Of actors of that name.
  std::optional<Name> actor = {};
  MessageType type = 0;
  std::string body = {};
};

Result<Message> make_message(const TalkArguments& arguments) {
  Message message;
  const auto number = parse_whole<std::uint32_t>(arguments.to);
  if (arguments.actor.empty()) {
    if (!number || *number == 0)
      return fail(ErrorCode::parse_error,
                  "'" + arguments.to + "' is no port: ports are numbers from 1; messages with names are those of actors (--actor)");
    message.port = *number;
  } else {
    auto name = Name::parse(arguments.actor);
    if (!name) return fail(name.error());
    message.actor = std::move(*name);
    message.type = number ? MessageType(*number) : MessageType(arguments.to);
  }
  message.body = arguments.body;
  if (arguments.body == "-") message.body.assign(std::istreambuf_iterator<char>(std::cin), {});
  return message;
}

Result<RankAnswers> call(Context& context, const ProcMeshRef& view, const Message& message, std::chrono::milliseconds limit) {
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

/// What came of it, by create rank.
using Answers = std::map<std::uint64_t, Result<std::string>>;

Answers call_all(Context& context, const std::vector<ProcMeshRef>& views, const Message& message, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  Answers all;
  for (std::size_t begin = 0; begin < views.size(); begin += kCallsAtOnce) {
    const auto last = std::min(views.size(), begin + kCallsAtOnce);
    const auto left = std::max(std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()), least_time);
    std::vector<std::future<Result<RankAnswers>>> calls;
    for (auto i = begin; i < last; ++i)
      calls.push_back(
          std::async(std::launch::async, [&context, &view = views[i], &message, left] { return call(context, view, message, left); }));
    for (auto i = begin; i < last; ++i) {
      auto answers = calls[i - begin].get();
      for (std::uint64_t ordinal = 0; ordinal < views[i].num_ranks(); ++ordinal) {
        if (const auto rank = views[i].create_rank(ordinal))
          all.emplace(*rank, answers ? std::move((*answers)[ordinal]) : Result<std::string>(fail(answers.error())));
      }
    }
  }
  return all;
}

void print_answers(const MeshReport& mesh, const Answers& answers) {
  Json list = Json::array();
  const auto extent = mesh.region.extent();
  for (const auto& [rank, answer] : answers) {
    const auto point = extent.point_of(rank);
    list.push_back({{"rank", rank},
                    {"point", point ? Json(point->to_string()) : Json(nullptr)},
                    {"answer", answer ? Json(*answer) : Json(nullptr)},
                    {"error", answer ? Json(nullptr)
                                     : Json{{"code", std::string(to_string(answer.error().code()))}, {"text", answer.error().detail()}}}});
  }
  std::cout << dump({{"mesh", mesh.name}, {"answers", list}}, 2) << "\n";
}

/// Each line of an answer with its rank in front.
void print_lines(const std::string& prefix, std::string_view text) {
  do {
    const auto end = text.find('\n');
    std::cout << prefix << text.substr(0, end) << "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  } while (!text.empty());
}

int show(const MeshReport& mesh, const Answers& answers, const TalkArguments& arguments) {
  int code = 0;
  const auto prefixes = make_prefixes(base_of(mesh.name), mesh.region.extent());
  for (const auto& [rank, answer] : answers) {
    if (!answer) code = 1;
    if (arguments.hosts.json) continue;
    if (!answer) {
      complain(prefixes[rank] + answer.error().to_string());
    } else if (arguments.raw) {
      std::cout << *answer;
    } else {
      print_lines(prefixes[rank], *answer);
    }
  }
  if (arguments.hosts.json) print_answers(mesh, answers);
  return code;
}

int complain_of(const std::string& why, int code) {
  complain(why);
  return code;
}

}  // namespace

int talk_command(const TalkArguments& arguments) {
  if (const auto selector = Selector::parse(arguments.selector); !selector) return complain_of(selector.error().detail(), kUsage);
  const auto message = make_message(arguments);
  if (!message) return complain_of(message.error().to_string(), kUsage);
  auto found = choose_ranks(arguments.selector, arguments.hosts);
  if (const int* code = std::get_if<int>(&found)) return *code;
  auto& [attached, mesh, views] = std::get<ChosenRanks>(found);

  if (arguments.is_call) return show(mesh, call_all(attached.context, views, *message, arguments.hosts.timeout), arguments);
  std::uint64_t ranks = 0;
  for (const auto& view : views) {
    if (const auto sent = cast(attached.context, view, *message); !sent) return complain_of(sent.error().to_string(), 1);
    ranks += view.num_ranks();
  }
  if (arguments.hosts.json) std::cout << dump({{"mesh", mesh.name}, {"ranks", ranks}, {"bytes", message->body.size()}}, 2) << "\n";
  return 0;
}

}  // namespace meshbus::cli
