// Starts `lockstep lsp` for .step files. The settings are those of package.json; a change of them
// starts the server anew.
const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function options() {
  const settings = workspace.getConfiguration("lockstep");
  const folders = settings.get("importPaths").flatMap((folder) => ["-I", folder]);
  const server = { command: settings.get("command"), args: ["lsp", ...folders] };
  const peak = settings.get("peak");
  const documents = {
    documentSelector: [{ language: "step" }],
    initializationOptions: { sizes: settings.get("sizes"), ...(peak > 0 ? { peak } : {}) },
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.{step,h}") },
  };
  return { server, documents };
}

async function start() {
  const { server, documents } = options();
  client = new LanguageClient("lockstep", "Lockstep", server, documents);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(`\`${server.command} lsp\` could not be started: ${error.message}. ` +
      "The setting lockstep.command is the path of the command.");
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) await running.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    commands.registerCommand("lockstep.restart", restart),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("lockstep")) restart();
    }));
  await start();
}

module.exports = { activate, deactivate: stop };
