-- The client of et-lsp for Neovim 0.7 and later: require("etir").setup{}.
local M = {}

M.options = { cmd = { "et-lsp" }, filetypes = { "mlir" } }

local function show(result, filetype)
  if type(result) ~= "table" then
    return
  end
  if result.text == nil or result.text == vim.NIL then
    vim.notify(result.diagnostics, vim.log.levels.ERROR)
    return
  end
  vim.cmd("vnew")
  vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(result.text, "\n"))
  vim.bo.buftype = "nofile"
  vim.bo.bufhidden = "wipe"
  vim.bo.filetype = filetype
end

local function request(client_id, command, arguments, answer)
  local client = vim.lsp.get_client_by_id(client_id)
  client.request("workspace/executeCommand", { command = command, arguments = arguments }, function(err, result)
    if err then
      vim.notify(err.message, vim.log.levels.ERROR)
    else
      answer(result)
    end
  end)
end

local function run_passes(command, context)
  local arguments = vim.deepcopy(command.arguments)
  local function run(passes)
    if passes == nil or passes == "" then
      return
    end
    arguments[3] = passes
    request(context.client_id, "etir.runPasses", arguments, function(result)
      show(result, "mlir")
    end)
  end
  if arguments[3] ~= nil then
    run(arguments[3])
  else
    vim.ui.input({ prompt = "Passes, as et-opt -p takes them: " }, run)
  end
end

local function explain(command, context)
  request(context.client_id, "etir.explain", command.arguments, function(result)
    show(result, "text")
  end)
end

local function start(buffer)
  local config = {
    name = "etir",
    cmd = M.options.cmd,
    root_dir = vim.fn.getcwd(),
    init_options = { showsResults = true },
    on_attach = M.options.on_attach,
  }
  if vim.lsp.start then
    vim.lsp.start(config)
  else -- Neovim 0.7
    M.client = M.client or vim.lsp.start_client(config)
    vim.lsp.buf_attach_client(buffer, M.client)
  end
end

function M.setup(options)
  M.options = vim.tbl_extend("force", M.options, options or {})
  vim.lsp.commands["etir.runPasses"] = run_passes
  vim.lsp.commands["etir.explain"] = explain
  vim.api.nvim_create_autocmd("FileType", {
    pattern = M.options.filetypes,
    callback = function(event)
      start(event and event.buf or vim.api.nvim_get_current_buf())
    end,
  })
end

return M
