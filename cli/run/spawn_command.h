#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus spawn`: starts a mesh on running hosts and leaves it to a controller.
void add_spawn(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
