"""``et-llm serve``: one model on the loopback address, as OpenAI's HTTP interface, with a page to try it.

::

    HTTP (starlette, uvicorn)          one thread                         C++
    app.py, answers.py  ->  jobs  ->  service.py: one token of each  ->  engine.py: Session
       event loop          events     running job in turn

* :mod:`~etir.llm.serve.engine` is what is asked of a model; :mod:`~etir.llm.serve.service` runs jobs on a pool of
  sessions over one set of weights; :mod:`~etir.llm.serve.pool` chooses the session of a prompt.
* :mod:`~etir.llm.serve.fields` is what a request may say, :mod:`~etir.llm.serve.requests` reads one,
  :mod:`~etir.llm.serve.answers` writes what comes back, :mod:`~etir.llm.serve.app` has the routes and who may call
  them, :mod:`~etir.llm.serve.server` the socket.

Decoding waits for the memory bus, not for processors: two sessions at once are no faster than two in turn. One thread
therefore runs everything that the model computes, a token of each job at a time: nobody waits for another's answer to
end, no lock is held while the model computes, and what was canceled stops before its next token.

Needs the extra ``etir[serve]``.
"""
