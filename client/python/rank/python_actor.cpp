#include "client/python/rank/python_actor.h"

#include <optional>
#include <stdexcept>

#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "client/python/rank/interpreter_lock.h"
#include "client/python/rank/rank.h"
#include "meshbus/large_text.h"

namespace meshbus::python {
namespace {

constexpr const char* kEnding = "this rank is ending";

PyObject* actor_factory = nullptr;  // never given up: actors come and go until the process ends

/// What was raised, with the lines of source that what() does not have.
std::string text_of(const py::error_already_set& error) {
  try {
    return py::cast<std::string>(
        py::module_::import("meshbus._adapter").attr("failure_text")(error.value(), error.trace()));
  } catch (const std::exception&) {
    return error.what();
  }
}

/// An answer that comes later.
struct Reply {
  ActorReply reply;
};

}  // namespace

void set_actor_factory(py::object make) {
  actor_factory = make.release().ptr();
}

PythonActor::PythonActor(ActorContext& context, std::string_view params) {
  Rank::ours().learn(context.proc());
  std::optional<std::string> problem;
  {
    InterpreterLock lock;
    if (!lock) throw std::runtime_error(kEnding);
    try {
      const auto make = py::reinterpret_borrow<py::object>(actor_factory);
      adapter_ =
          make(py::bytes(params.data(), params.size()), context.rank(), context.id().to_string(),
               // A child has nobody of its name in other ranks.
               context.parent() ? std::string() : context.peers().to_string(), context.share());
      handle_ = adapter_.attr("handle");
      names_ = adapter_.attr("names");
      for (const py::handle name : names_)
        on(py::cast<std::string>(name),
           [this, name](ActorContext& actor, const ActorMessage& message) {
             return handle(name, actor, message);
           });
    } catch (const py::error_already_set& error) {
      problem = text_of(error);
    }
    if (problem) let_go();
  }
  if (problem) throw std::runtime_error(*problem);
}

PythonActor::~PythonActor() {
  const InterpreterLock lock;
  if (lock) {
    let_go();
  } else {
    for (auto* const one : {&adapter_, &handle_, &names_}) one->release();
  }
}

void PythonActor::let_go() {
  for (auto* const one : {&adapter_, &handle_, &names_}) *one = {};
}

Result<std::string> PythonActor::handle(py::handle name, ActorContext& context,
                                        const ActorMessage& message) {
  Body body{copy_large(message.body)};
  const InterpreterLock lock;
  if (!lock) return fail(ErrorCode::refused, kEnding);
  std::string problem;
  try {
    const auto answer = handle_(name, std::move(body), message.is_call);
    if (answer.is_none()) return std::string();
    if (PyCallable_Check(answer.ptr()) == 0) return gather(answer);
    answer(Reply{context.defer()});
    return std::string();
  } catch (const py::error_already_set& error) {
    problem = text_of(error);
  }
  if (message.is_call) return fail(ErrorCode::call_error, problem);
  throw std::runtime_error(problem);  // the failure of a message is the failure of its actor
}

void PythonActor::on_stop(ActorContext&, const std::string& reason) {
  const InterpreterLock lock;
  if (!lock) return;
  try {
    adapter_.attr("on_stop")(reason);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("on_stop");
  }
}

bool PythonActor::on_child_failed(ActorContext&, const ActorFailure& failure) {
  std::string problem;
  {
    const InterpreterLock lock;
    if (!lock) return false;
    try {
      return py::cast<bool>(adapter_.attr("on_child_failed")(
          failure.actor.to_string(), failure.error, failure.message, failure.causes));
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  throw std::runtime_error("on_child_failed: " + problem);
}

void bind_reply(py::module_& module) {
  py::class_<Reply>(module, "Reply", "Answers one call later.")
      .def("answer",
           [](const Reply& self, py::handle parts) {
             auto body = gather(parts);
             py::gil_scoped_release release;
             self.reply.answer(std::move(body));
           })
      .def("fail_actor",
           [](const Reply& self, const std::string& why) {
             py::gil_scoped_release release;
             self.reply.fail_actor(why);
           })
      .def("fail", [](const Reply& self, const std::string& text) {
        py::gil_scoped_release release;
        self.reply.fail(Error(ErrorCode::call_error, text));
      });
}

}  // namespace meshbus::python
