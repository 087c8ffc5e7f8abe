"""A web service on asyncio: requests become records, and a task in the background reads them and keeps a sum that other requests ask for.

python examples/asyncio_service.py --bootstrap-servers 127.0.0.1:9092 --port 8000
curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"country": "NL", "amount": 12.5}'
curl localhost:8000/revenue/NL
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from log_service.client import AsyncioConsumer, AsyncioProducer, KafkaError


class Order(BaseModel):
    country: str
    amount: float


class Taken(BaseModel):
    """Where the order is now."""

    partition: int
    offset: int


async def add_up(consumer: AsyncioConsumer, revenue: Counter[str]) -> None:
    """Read orders until the task is cancelled; leaving the consumer's block commits those that were added."""
    async for record in consumer:
        order = json.loads(record.value)
        revenue[order["country"]] += order["amount"]


def service(bootstrap_servers: str, topic: str) -> FastAPI:
    revenue: Counter[str] = Counter()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # The clients live as long as the service, on its event loop: one of each serves all requests.
        async with (
            AsyncioProducer(bootstrap_servers, linger_ms=5) as app.state.producer,
            AsyncioConsumer(bootstrap_servers, group_id="revenue", auto_offset_reset="earliest") as consumer,
            asyncio.TaskGroup() as tasks,  # a background task that fails ends the service, instead of being forgotten
        ):
            await consumer.subscribe([topic])
            adding = tasks.create_task(add_up(consumer, revenue))
            yield
            adding.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=201)
    async def take(order: Order, request: Request) -> Taken:
        """Respond once the order is acknowledged; a client that goes away meanwhile does not take the record back."""
        producer: AsyncioProducer = request.app.state.producer
        receipt = await producer.send(topic, order.model_dump_json(), key=order.country)
        metadata = await receipt.wait()
        return Taken(partition=metadata.partition, offset=metadata.offset)

    @app.get("/revenue/{country}")
    async def tell(country: str) -> float:
        return revenue[country]

    @app.exception_handler(KafkaError)
    async def refuse(_request: Request, error: KafkaError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=503 if error.is_retriable else 500)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="paid-orders")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(service(arguments.bootstrap_servers, arguments.topic), host="127.0.0.1", port=arguments.port)


if __name__ == "__main__":
    main()
