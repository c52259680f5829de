// The client of et-lsp. What the server cannot ask for itself is asked here: which passes, and where results go.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const RUN_PASSES = "etir.runPasses";
const EXPLAIN = "etir.explain";

let client;

async function choosePasses() {
  const passes = await client.sendRequest("workspace/executeCommand", { command: "etir.passes", arguments: [] });
  const items = passes.map((pass) => ({ label: pass.name, description: pass.summary }));
  const chosen = await vscode.window.showQuickPick(items, { canPickMany: true, placeHolder: "Passes, in this order" });
  if (!chosen || chosen.length === 0) return undefined;
  return vscode.window.showInputBox({
    prompt: "The pipeline, with options as et-opt -p takes them",
    value: chosen.map((item) => item.label).join(","),
  });
}

async function show(result, language) {
  if (!result) return;
  if (result.text === null) {
    vscode.window.showErrorMessage(result.diagnostics);
    return;
  }
  const document = await vscode.workspace.openTextDocument({ content: result.text, language });
  await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
}

async function executeCommand(command, given, next) {
  const args = [...given];
  if (command === RUN_PASSES && args.length < 3) {
    const passes = await choosePasses();
    if (!passes) return undefined;
    args.push(passes);
  }
  const result = await next(command, args);
  if (command === RUN_PASSES) await show(result, "etir");
  if (command === EXPLAIN) await show(result, "plaintext");
  return result;
}

async function activate(context) {
  const [command, ...args] = vscode.workspace.getConfiguration("etir").get("server");
  client = new LanguageClient(
    "etir",
    "etir",
    { command, args },
    {
      documentSelector: [{ language: "etir" }, { language: "python", scheme: "file" }],
      initializationOptions: { showsResults: true },
      middleware: { executeCommand },
    },
  );
  context.subscriptions.push(client);
  await client.start();
}

module.exports = { activate };
