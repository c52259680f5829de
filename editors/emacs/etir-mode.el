;;; etir-mode.el --- Programs of the etir compiler as text  -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "29.1"))
;; Keywords: languages

;;; Commentary:

;; Highlighting, skeletons and, through eglot, the language server et-lsp.
;; M-x eglot starts it; M-x etir-run-passes and M-x etir-explain ask it about the line of the cursor.

;;; Code:

(require 'skeleton)

(defgroup etir nil "Programs of the etir compiler." :group 'languages)

(defcustom etir-server '("et-lsp")
  "The command that starts the language server."
  :type '(repeat string))

(defvar etir-font-lock
  '(("expected-\\(?:error\\|warning\\|remark\\|note\\)\\(?:-re\\)?" 0 font-lock-warning-face prepend)
    ("%[A-Za-z0-9_$.-]+" . font-lock-variable-name-face)
    ("@[A-Za-z_][A-Za-z0-9_$.-]*" . font-lock-function-name-face)
    ("\\^[A-Za-z0-9_$.-]+" . font-lock-constant-face)
    ("[#!][A-Za-z_][A-Za-z0-9_$.]*" . font-lock-preprocessor-face)
    ("\\_<[a-z_][a-z0-9_]*\\.[A-Za-z0-9_.]+" . font-lock-keyword-face)
    ("\\_<\\(?:tensor\\|memref\\|[su]?i[0-9]+\\|bf16\\|f[0-9]+\\|index\\|none\\)\\_>" . font-lock-type-face))
  "What is highlighted.")

(defvar etir-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 12" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?. "_" table)
    table)
  "Comments begin with two slashes; names have dots.")

(define-skeleton etir-insert-method
  "A method of one input."
  "Name: "
  "func.func @" str "(%x: tensor<" _ "1x4xf32>) -> tensor<1x4xf32> {" \n
  "  func.return %x : tensor<1x4xf32>" \n
  "}" \n)

(define-skeleton etir-insert-expectation
  "An error that the next line has."
  "Id: "
  "// expected-error @below [" str "] {{" _ "}}" \n)

;;;###autoload
(define-derived-mode etir-mode prog-mode "etir"
  "Programs of the etir compiler as text."
  (setq-local font-lock-defaults '(etir-font-lock))
  (setq-local comment-start "// ")
  (setq-local comment-start-skip "//+\\s-*"))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.mlir\\'" . etir-mode))

(declare-function eglot-current-server "eglot")
(declare-function eglot-server-capable "eglot")
(declare-function jsonrpc-request "jsonrpc")
(defvar eglot-server-programs)

(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs
               `(etir-mode . (,@etir-server :initializationOptions (:showsResults t)))))

(defun etir--show (result name)
  "Show the RESULT of a command in the buffer NAME."
  (let ((text (plist-get result :text)))
    (unless text (user-error "%s" (plist-get result :diagnostics)))
    (with-current-buffer (get-buffer-create name)
      (erase-buffer)
      (insert text)
      (goto-char (point-min))
      (etir-mode)
      (display-buffer (current-buffer)))))

(defun etir--command (command &rest more)
  "What COMMAND says of the line of the cursor; MORE are further arguments."
  (let* ((server (or (eglot-current-server) (user-error "No server: M-x eglot")))
         (uri (concat "file://" (mapconcat #'url-hexify-string (split-string buffer-file-name "/") "/")))
         (arguments (vconcat (list uri (1- (line-number-at-pos))) more)))
    (jsonrpc-request server :workspace/executeCommand `(:command ,command :arguments ,arguments))))

;;;###autoload
(defun etir-run-passes (passes)
  "Show the module of this line after PASSES, written as for et-opt -p."
  (interactive "sPasses: ")
  (etir--show (etir--command "etir.runPasses" passes) "*etir passes*"))

;;;###autoload
(defun etir-explain ()
  "Show what becomes of the operation of this line."
  (interactive)
  (etir--show (etir--command "etir.explain") "*etir explain*"))

(provide 'etir-mode)
;;; etir-mode.el ends here
