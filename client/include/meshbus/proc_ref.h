#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/context.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"
#include "meshbus/status.h"

namespace [[gnu::visibility("default")]] meshbus {

struct LogHandlers;
struct LogOptions;
class LogStream;

/// Names one proc. A plain value: copy it, print its id, send it to another process. Keeps nothing
/// alive.
class ProcRef {
 public:
  explicit ProcRef(ProcId id) : id_(std::move(id)) {}  ///< Any proc, whether it is there or not.
  /// The proc of an address as id() prints it. Errors: parse_error.
  [[nodiscard]] static Result<ProcRef> parse(std::string_view address);
  /// The proc of that agent, by its id: `tcp:h1:7420,trainers_3-13Se1Maqzryj,agent[0]`. Errors:
  /// parse_error, also for an actor that is not the agent of its proc.
  [[nodiscard]] static Result<ProcRef> of_agent(std::string_view agent);
  /// The proc at that ordinal of a mesh, or of a slice of it. Errors: out_of_range; those of
  /// ProcMeshRef::parse.
  [[nodiscard]] static Result<ProcRef> of_rank(const ProcMeshRef& mesh, std::uint64_t ordinal);
  [[nodiscard]] static Result<ProcRef> of_rank(std::string_view mesh, std::uint64_t ordinal);

  /// `tcp:h1:7420,trainers_3-13Se1Maqzryj`
  const ProcId& id() const noexcept { return id_; }

  /// How the proc of a mesh is, asked of its host now; NotExist: the host knows no such rank (any
  /// more). The Context needs no host mesh (MeshStatuses::ask). Errors: configuration_error (its
  /// name is not that of a rank: a launcher's, a host's service), host_unreachable and what else
  /// keeps its host from answering; would_block, refused (after fork).
  [[nodiscard]] Result<Status> status(
      Context& context, std::chrono::milliseconds deadline = std::chrono::seconds(3)) const;

  /// Reads what the proc wrote: LogStream::open() of it alone, so also a rank its own output, by a
  /// Context of its own (of which it should not print each piece: that is output again).
  /// LogOptions::ranks are not used. Errors: as there; configuration_error as of status().
  [[nodiscard]] Result<LogStream> logs(Context& context, LogOptions options,
                                       LogHandlers handlers) const;

  /// Context::call and Context::send to this proc; errors as there.
  [[nodiscard]] Result<std::string> call(
      Context& context, std::uint32_t port, const BodyParts& body,
      std::chrono::milliseconds deadline = std::chrono::seconds(30)) const {
    return context.call(id_, port, body, deadline);
  }
  /// Context::call_async to this proc.
  void call_async(Context& context, std::uint32_t port, const BodyParts& body, AsyncOptions options,
                  AnswerHandler handler) const {
    context.call_async(id_, port, body, std::move(options), std::move(handler));
  }
  [[nodiscard]] Result<void> send(Context& context, std::uint32_t port,
                                  const BodyParts& body) const {
    return context.send(id_, port, body);
  }

  friend auto operator<=>(const ProcRef&, const ProcRef&) = default;
  friend bool operator==(const ProcRef&, const ProcRef&) = default;

 private:
  ProcId id_;
};

}  // namespace meshbus
