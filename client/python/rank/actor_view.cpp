#include "client/python/rank/actor_view.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "client/python/bind/errors.h"
#include "client/python/bind/gathering.h"
#include "client/python/bind/places.h"
#include "client/python/bind/waiting.h"
#include "client/python/rank/rank.h"
#include "meshbus/actor_ref.h"

namespace meshbus::python {
namespace {

/// Those of a mesh, or the one of that id: a child.
struct Actors {
  std::variant<ActorMeshRef, ActorId> which;

  const ActorId* child() const { return std::get_if<ActorId>(&which); }
  /// Raises for a child.
  const ActorMeshRef& mesh() const {
    if (const auto* const mesh = std::get_if<ActorMeshRef>(&which)) return *mesh;
    raise(Error(ErrorCode::out_of_range, "one actor cannot be sliced"));
  }
  std::uint64_t size() const { return child() != nullptr ? 1 : mesh().num_ranks(); }
  Result<ActorId> at(std::uint64_t ordinal) const {
    return child() != nullptr ? Result<ActorId>(*child()) : mesh().actor_at(ordinal);
  }
  std::string text() const {
    return child() != nullptr ? child()->to_string() : mesh().to_string();
  }

  static Actors parse(const std::string& text) {
    auto mesh = ActorMeshRef::parse(text);
    if (mesh) return {std::move(*mesh)};
    auto id = ActorId::parse(text);
    if (id) return {std::move(*id)};
    raise(mesh.error());
  }
};

/// Asks each of them; put(ordinal, answer) hears of each, on the library's own thread.
template <typename Put>
void ask_each(const Actors& self, const std::string& type, py::handle parts, double timeout,
              Put put) {
  auto& proc = Rank::ours().proc();
  const HeldParts body(parts);
  const auto limit = milliseconds_of(timeout);
  py::gil_scoped_release release;
  for (std::uint64_t ordinal = 0; ordinal < self.size(); ++ordinal) {
    const auto actor = self.at(ordinal);
    if (!actor) {
      put(ordinal, Result<std::string>(fail(actor.error())));
      continue;
    }
    proc.call_async(*actor, type, body.parts(), limit, [put, ordinal](Result<std::string> answer) {
      put(ordinal, std::move(answer));
    });
  }
}

std::shared_ptr<Pending> call(const Actors& self, const std::string& type, py::handle parts,
                              double timeout) {
  auto gathering = std::make_shared<Gathering>(self.size());
  ask_each(self, type, parts, timeout,
           [gathering](std::uint64_t ordinal, Result<std::string> answer) {
             gathering->put(ordinal, std::move(answer));
           });
  return gathering->pending();
}

std::shared_ptr<Pending> stream(const Actors& self, const std::string& type, py::handle parts,
                                double timeout, const std::shared_ptr<Inbox>& inbox) {
  ask_each(self, type, parts, timeout, [inbox](std::uint64_t ordinal, Result<std::string> answer) {
    auto kept = std::make_shared<Result<std::string>>(std::move(answer));
    inbox->push([ordinal, kept] { return py::make_tuple(ordinal, answer_of(std::move(*kept))); });
  });
  return std::make_shared<Pending>();
}

void send(const Actors& self, const std::string& type, py::handle parts) {
  auto& proc = Rank::ours().proc();
  const HeldParts body(parts);
  py::gil_scoped_release release;
  for (std::uint64_t ordinal = 0; ordinal < self.size(); ++ordinal) {
    const auto actor = self.at(ordinal);
    const auto sent =
        actor ? proc.send(*actor, type, body.parts()) : Result<void>(fail(actor.error()));
    if (sent) continue;
    const py::gil_scoped_acquire acquire;
    raise(sent.error().within("cast to rank " + std::to_string(ordinal)));
  }
}

}  // namespace

void bind_actor_view(py::module_& module) {
  py::class_<Actors>(module, "Actors", py::module_local(),
                     "Actors of one name, as a rank calls them.")
      .def_static("parse", &Actors::parse)
      .def_property_readonly("ref", &Actors::text)
      .def_property_readonly("shape",
                             [](const Actors& self) {
                               return self.child() != nullptr
                                          ? py::make_tuple(py::tuple(), py::tuple())
                                          : shape_of(self.mesh().region());
                             })
      .def("range",
           [](const Actors& self, const std::string& label, std::uint64_t begin,
              std::optional<std::uint64_t> end, std::uint64_t step) {
             return Actors{must(self.mesh().range(label, begin, end, step))};
           })
      .def("at", [](const Actors& self, const std::string& label,
                    std::uint64_t index) { return Actors{must(self.mesh().at(label, index))}; })
      .def("create_rank",
           [](const Actors& self, std::uint64_t ordinal) {
             return self.child() != nullptr ? ordinal
                                            : must(self.mesh().procs().create_rank(ordinal));
           })
      .def("__len__", &Actors::size)
      .def_static("inbox", [] { return std::make_shared<Inbox>(); })
      .def("call", &call)
      .def("stream", &stream)
      .def("send", &send);
}

}  // namespace meshbus::python
